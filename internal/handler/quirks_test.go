package handler

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/wire"
)

// The tests in this file are named after the quirks in docs/internals/protocol.md, i.e. behavior
// that clients require in addition to Kafka's schemas. More such tests are in
// quirks_clients_test.go.

// TestQuirk1APIVersionsOfAnUnknownVersion sends ApiVersions in unknown versions. The response must
// have version 0, error 35 and the whole table, and a header without tags.
func TestQuirk1APIVersionsOfAnUnknownVersion(t *testing.T) {
	b := newBroker(t)
	for _, version := range []int16{6, 77, math.MaxInt16, -1} {
		reply, err := b.Handle(t.Context(),
			&wire.Request{Key: api.KeyAPIVersions, Version: version, Body: []byte("who knows")})
		must(t, err)
		if reply.Flexible || reply.Error != "UNSUPPORTED_VERSION" {
			t.Errorf("version %d: reply %+v", version, reply)
		}
		answer := kmsg.NewPtrApiVersionsResponse()
		must(t, answer.ReadFrom(replyBytes(t, reply)))
		checkVersions(t, answer, 35)
	}
}

func TestQuirk1SoftwareNameIsChecked(t *testing.T) {
	b := newBroker(t)
	for name, want := range map[string]int16{
		"librdkafka": 0, "a": 0, "apache-kafka-java": 0, "4.3.1": 0, "": 42, "-a": 42, "a-": 42,
		"a b": 42, "a\n": 42,
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = name, "1"
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, 3, req), want)
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a", name
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, 4, req), want)
		// Version 2 does not contain the software name.
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, 2, req), 0)
	}
}

func TestQuirk2ProduceIsAdvertisedFrom0AndRejectedBelow3(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	for version := range int16(3) {
		answer := b.produce(version, "tickets", batch(t, compress.None, "a"))
		if answer.ErrorCode != 35 || answer.BaseOffset != -1 {
			t.Errorf("version %d: %+v", version, answer)
		}
	}
	if got := b.fetch(4, "tickets", 0).HighWatermark; got != 0 {
		t.Errorf("high watermark: got %d, want 0: a batch was appended", got)
	}
}

// TestQuirk4UnknownTagsAreSkipped checks that the broker handles requests that contain unknown tags
// in every struct.
func TestQuirk4UnknownTagsAreSkipped(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "a")
	tags := func(to *kmsg.Tags) { to.Set(7000, []byte("later")); to.Set(90, nil) }
	fetch := fetchRequestFor("tickets", 0)
	tags(&fetch.UnknownTags)
	tags(&fetch.Topics[0].UnknownTags)
	tags(&fetch.Topics[0].Partitions[0].UnknownTags)
	if answer := ask[*kmsg.FetchResponse](b, 12,
		fetch); len(answer.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("fetch with tags found nothing")
	}
	produce := produceRequestFor("tickets", -1, batch(t, compress.None, "b"))
	tags(&produce.UnknownTags)
	tags(&produce.Topics[0].UnknownTags)
	tags(&produce.Topics[0].Partitions[0].UnknownTags)
	if answer := ask[*kmsg.ProduceResponse](b, 9,
		produce); answer.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("produce with tags: %+v", answer)
	}
}

func TestQuirk5TopicsByID(t *testing.T) {
	b := newBroker(t)
	topic := b.topic("tickets", nil)
	name, old := "tickets", topic.ID
	byID := func(version int16, id metadata.ID, name *string) kmsg.MetadataResponseTopic {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{{TopicID: id, Topic: name}}
		return ask[*kmsg.MetadataResponse](b, version, req).Topics[0]
	}
	// Java's consumer sends an empty name together with the id.
	for _, beside := range []*string{nil, new("")} {
		if got := byID(12, old, beside); got.ErrorCode != 0 || *got.Topic != name ||
			got.TopicID != old || len(got.Partitions) != 1 {
			t.Errorf("by id: %+v", got)
		}
		if got := byID(12, metadata.NewID(), beside); got.ErrorCode != 100 || got.Topic != nil {
			t.Errorf("by an unknown id: %+v", got)
		}
	}
	if got := byID(10, metadata.ID{}, &name); got.ErrorCode != 0 {
		t.Errorf("by name: %+v", got)
	}
	for _, id := range []metadata.ID{old, {}} {
		if got := byID(11, id, nil); got.ErrorCode != 42 {
			t.Errorf("version 11 by id %v: %+v", id, got)
		}
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: old}}
	if got := ask[*kmsg.DeleteTopicsResponse](b, 6, req).Topics[0]; got.ErrorCode != 0 ||
		*got.Topic != name {
		t.Errorf("delete by id: %+v", got)
	}
	if got := ask[*kmsg.DeleteTopicsResponse](b, 6, req).Topics[0]; got.ErrorCode != 100 {
		t.Errorf("delete by the id of a deleted topic: %+v", got)
	}
	if again := b.create(7, name, nil); again.ErrorCode != 0 || again.TopicID == old {
		t.Errorf("created again: %+v", again)
	}
}

// TestQuirk6FetchSessions checks the session epochs: a request with epoch 0 opens a session, and
// one with epoch -1 uses none; both close the session whose id they contain. Any other epoch
// continues a session, or the request is rejected.
func TestQuirk6FetchSessions(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "a")
	for _, version := range []int16{7, 12, 13, 17} {
		topic := fmt.Sprintf("tickets-%d", version)
		b.topic(topic, nil)
		b.mustProduce(topic, "a")
		fetch := func(id, epoch int32, whole bool) *kmsg.FetchResponse {
			req := fetchRequestFor(topic, 1)
			req.SessionID, req.SessionEpoch = id, epoch
			if !whole {
				req.Topics = nil
			}
			return ask[*kmsg.FetchResponse](b, version, req)
		}
		check := func(answer *kmsg.FetchResponse, code int16, session bool, partitions int) int32 {
			t.Helper()
			if got := countPartitions(answer); answer.ErrorCode != code ||
				(answer.SessionID != 0) != session || got != partitions {
				t.Errorf("version %d: %+v, want code %d, a session %t, %d partitions", version,
					answer, code, session, partitions)
			}
			return answer.SessionID
		}
		check(fetch(0, -1, true), 0, false, 1)
		check(fetch(5, -1, true), 0, false, 1)
		check(fetch(0, 1, false), 70, false, 0)
		check(fetch(5, math.MaxInt32, false), 70, false, 0)
		id := check(fetch(0, 0, true), 0, true, 1)
		check(fetch(id, 1, false), 0, true, 0) // no partition has changed, so the response contains none
		check(fetch(id, 1, false), 71, false, 0)
		b.mustProduce(topic, "b")
		check(fetch(id, 2, false), 0, true, 1)
		forget := fetchRequestFor(topic, 0)
		forget.Topics = nil
		forget.SessionID, forget.SessionEpoch = id, 3
		gone := kmsg.NewFetchRequestForgottenTopic()
		gone.Topic, gone.TopicID, gone.Partitions = topic, b.image.Load().Topic(topic).ID,
			[]int32{0}
		forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
		check(ask[*kmsg.FetchResponse](b, version, forget), 0, true, 0)
		other := check(fetch(id, 0, true), 0, true, 1)
		// The request that opened session other has closed this session.
		check(fetch(id, 4, false), 70, false, 0)
		check(fetch(other, -1, true), 0, false, 1)
		check(fetch(other, 1, false), 70, false, 0)
	}
	byName := fetchRequestFor("tickets", 0)
	byName.SessionEpoch = 0
	session := ask[*kmsg.FetchResponse](b, 12, byName).SessionID
	byID := fetchRequestFor("tickets", 0)
	byID.SessionID, byID.SessionEpoch = session, 1
	if answer := ask[*kmsg.FetchResponse](b, 13, byID); answer.ErrorCode != 106 {
		t.Errorf("topics by ids in a session by names: %+v", answer)
	}
	unknown := fetchRequestFor("tickets", 0)
	unknown.Topics[0].Topic, unknown.SessionEpoch = "missing", 0
	answer := ask[*kmsg.FetchResponse](b, 13, unknown)
	if answer.ErrorCode != 0 || answer.Topics[0].Partitions[0].ErrorCode != 100 {
		t.Fatalf("unknown topic: %+v", answer)
	}
	again := fetchRequestFor("tickets", 0)
	again.Topics, again.SessionID, again.SessionEpoch = nil, answer.SessionID, 1
	if answer = ask[*kmsg.FetchResponse](b, 13, again); answer.ErrorCode != 0 ||
		countPartitions(answer) != 1 || answer.Topics[0].Partitions[0].ErrorCode != 100 {
		t.Errorf("a partition with an error must be returned by each fetch: %+v", answer)
	}
}

func countPartitions(answer *kmsg.FetchResponse) (n int) {
	for i := range answer.Topics {
		n += len(answer.Topics[i].Partitions)
	}
	return n
}

func TestQuirk7FirstBatchIsComplete(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", string(make([]byte, 5000)), "second")
	b.mustProduce("tickets", "third")
	for _, most := range []int32{0, 1, 5000} {
		req := fetchRequestFor("tickets", 1) // offset 1 is within the first batch
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = most, most
		got := values(t, ask[*kmsg.FetchResponse](b, 12, req).Topics[0].Partitions[0].RecordBatches)
		if len(got) != 2 || got[1] != "second" {
			t.Errorf("at most %d bytes: got %d values, want 2", most, len(got))
		}
	}
}

// TestQuirk7ZstdOnlyFromFetch10 checks that clients below Fetch version 10, which cannot read zstd,
// get only the batches before the first zstd batch, and an error if they fetch at the zstd batch.
func TestQuirk7ZstdOnlyFromFetch10(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "plain", "too")
	if answer := b.produce(7, "tickets", batch(t, compress.Zstd, "zstd")); answer.ErrorCode != 0 {
		t.Fatalf("%+v", answer)
	}
	for version := int16(4); version <= 12; version++ {
		first, second := b.fetch(version, "tickets", 0), b.fetch(version, "tickets", 2)
		wantFirst, wantSecond, code := []string{"plain", "too", "zstd"}, []string{"zstd"}, int16(0)
		if version < 10 {
			wantFirst, wantSecond, code = wantFirst[:2], nil, 76
		}
		if got := values(t, first.RecordBatches); first.ErrorCode != 0 ||
			!slices.Equal(got, wantFirst) {
			t.Errorf("version %d: error %d, values %v", version, first.ErrorCode, got)
		}
		if got := values(t, second.RecordBatches); second.ErrorCode != code ||
			!slices.Equal(got, wantSecond) {
			t.Errorf("version %d at the zstd batch: error %d, values %v", version, second.ErrorCode,
				got)
		}
	}
	for version, code := range map[int16]int16{3: 76, 6: 76, 7: 0} {
		if answer := b.produce(version, "tickets",
			batch(t, compress.Zstd, "zstd")); answer.ErrorCode != code {
			t.Errorf("produce %d of zstd: %+v", version, answer)
		}
	}
}

func TestQuirk8ListOffsetsTimestamps(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	if got := b.listOffset(7, "tickets", -3); got.ErrorCode != 0 || got.Offset != -1 {
		t.Errorf("largest timestamp of an empty log: %+v", got)
	}
	b.mustProduce("tickets", "a", "b")
	for _, c := range []struct {
		timestamp int64
		since     int16
		offset    int64
	}{{-1, 1, 2}, {-2, 1, 0}, {-4, 8, 0}, {-5, 9, -1}, {-6, 11, -1}} {
		for version := int16(1); version <= 11; version++ {
			got := b.listOffset(version, "tickets", c.timestamp)
			if version < c.since {
				if got.ErrorCode != 35 {
					t.Errorf("%d in version %d: %+v", c.timestamp, version, got)
				}
				continue
			}
			if got.ErrorCode != 0 || got.Offset != c.offset || got.Timestamp != -1 {
				t.Errorf("%d in version %d: %+v, want offset %d", c.timestamp, version, got,
					c.offset)
			}
		}
	}
	if got := b.listOffset(7, "tickets", -3); got.ErrorCode != 0 || got.Offset < 0 ||
		got.Timestamp <= 0 {
		t.Errorf("largest timestamp: %+v", got)
	}
	for _, unknown := range []int64{-7, math.MinInt64} {
		if got := b.listOffset(11, "tickets", unknown); got.ErrorCode != 35 {
			t.Errorf("timestamp %d: %+v", unknown, got)
		}
	}
}

func TestQuirk10Sequences(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	send := func(epoch int16, sequence int32) kmsg.ProduceResponseTopicPartition {
		id := record.Identity{ProducerID: 7, ProducerEpoch: epoch, BaseSequence: sequence}
		return b.produce(9, "tickets", batchOf(t, compress.None, id, "a", "b"))
	}
	for _, c := range []struct {
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{
		{1, 0, 0, 0}, {1, 2, 0, 2},
		{1, 0, 0, 0},   // a duplicate gets the offset of the first append
		{1, 9, 45, -1}, // a gap between the sequence numbers
		{0, 4, 47, -1}, // an earlier epoch of the producer
		{1, 4, 0, 4},
	} {
		if got := send(c.epoch, c.sequence); got.ErrorCode != c.code || got.BaseOffset != c.offset {
			t.Errorf("epoch %d sequence %d: %+v, want error %d, offset %d", c.epoch, c.sequence,
				got, c.code, c.offset)
		}
	}
}

func TestQuirk11Acks(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	for _, acks := range []int16{2, -2, math.MaxInt16} {
		answer := ask[*kmsg.ProduceResponse](b, 9,
			produceRequestFor("tickets", acks,
				batch(t, compress.None, "a"))).Topics[0].Partitions[0]
		if answer.ErrorCode != 21 || answer.BaseOffset != -1 || answer.ErrorMessage == nil {
			t.Errorf("acks %d: %+v", acks, answer)
		}
	}
	silent := func(topic string) (wire.Reply, error) {
		req := produceRequestFor(topic, 0, batch(t, compress.None, "a"))
		req.SetVersion(9)
		return b.Handle(t.Context(),
			&wire.Request{Key: api.KeyProduce, Version: 9, Body: req.AppendTo(nil)})
	}
	if reply, err := silent("tickets"); !reply.None || err != nil {
		t.Errorf("acks=0: %+v, %v", reply, err)
	}
	if reply, err := silent("missing"); err == nil || reply.Error != "UNKNOWN_TOPIC_OR_PARTITION" {
		t.Error("a failed produce with acks=0 must close the connection")
	}
	if got := values(t, b.fetch(12, "tickets", 0).RecordBatches); !slices.Equal(got,
		[]string{"a"}) {
		t.Errorf("values %v", got)
	}
}

func TestQuirk13DescribeConfigs(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", func(t *metadata.Topic) {
		must(b.t,
			t.Settings.Set("cleanup.policy", "compact"))
	})
	everyVersion(t, api.KeyDescribeConfigs, func(t *testing.T, _ *broker, version int16) {
		for _, c := range []struct {
			kind    kmsg.ConfigResourceType
			name    string
			code    int16
			configs bool
		}{
			{kmsg.ConfigResourceTypeTopic, "tickets", 0, true},
			{kmsg.ConfigResourceTypeTopic, "missing", 3, false},
			{kmsg.ConfigResourceTypeBroker, "1", 0, true},
			{kmsg.ConfigResourceTypeBroker, "", 0, false},
			{kmsg.ConfigResourceTypeBroker, "2", 42, true},
			{kmsg.ConfigResourceTypeBrokerLogger, "1", 0, false},
			{kmsg.ConfigResourceTypeGroupConfig, "g", 0, true},
			{kmsg.ConfigResourceTypeClientMetrics, "m", 0, true},
			{kmsg.ConfigResourceTypeUnknown, "g", 42, false},
		} {
			req := kmsg.NewPtrDescribeConfigsRequest()
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: c.kind,
				ResourceName: c.name}}
			got := ask[*kmsg.DescribeConfigsResponse](b, version, req).Resources[0]
			if got.ErrorCode != c.code || (len(got.Configs) > 0) != (c.configs && c.code == 0) {
				t.Errorf("%v %q: error %d, %d configs", c.kind, c.name, got.ErrorCode,
					len(got.Configs))
			}
		}
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		req.Resources = []kmsg.DescribeConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "tickets",
			ConfigNames: []string{"cleanup.policy", "no.such"},
		}}
		got := ask[*kmsg.DescribeConfigsResponse](b, version, req).Resources[0].Configs
		if len(got) != 1 || *got[0].Value != "compact" ||
			got[0].Source != kmsg.ConfigSourceDynamicTopicConfig ||
			len(got[0].ConfigSynonyms) != 2 {
			t.Fatalf("configs %+v", got)
		}
		if version >= 3 && (got[0].ConfigType != kmsg.ConfigTypeList ||
			*got[0].Documentation == "") {
			t.Errorf("type %v, documentation %q", got[0].ConfigType, *got[0].Documentation)
		}
	})
}

// TestQuirk13TopicDefaultsByMinusOne checks that -1 stands for the defaults in all versions,
// because kafkajs sends it in version 3.
func TestQuirk13TopicDefaultsByMinusOne(t *testing.T) {
	for version := int16(2); version <= 7; version++ {
		b := newBroker(t)
		b.cluster = &v1alpha1.LogCluster{Spec: v1alpha1.LogClusterSpec{
			TopicDefaults: &v1alpha1.TopicDefaults{Partitions: new(int32(6))}}}
		got := b.create(version, "t",
			func(req *kmsg.CreateTopicsRequestTopic) {
				req.NumPartitions,
					req.ReplicationFactor = -1, -1
			})
		if got.ErrorCode != 0 || len(b.image.Load().Topic("t").Partitions) != 6 {
			t.Errorf("version %d: %+v, want 6 partitions", version, got)
		}
	}
}

func TestQuirk14DescribeClusterEndpoints(t *testing.T) {
	b := newBroker(t)
	for endpoint, want := range map[int8]int16{1: 0, 2: 114, 0: 115, 3: 115} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = endpoint
		got := ask[*kmsg.DescribeClusterResponse](b, 1, req)
		if got.ErrorCode != want || (want == 0) != (len(got.Brokers) == 2) {
			t.Errorf("endpoint type %d: %+v", endpoint, got)
		}
	}
}

// TestUnknownAPIsAndVersionsCloseTheConnection checks that Handle returns an error for unknown keys
// and versions, as Kafka does.
func TestUnknownAPIsAndVersionsCloseTheConnection(t *testing.T) {
	b := newBroker(t)
	for key := int16(-2); key < 100; key++ {
		row := b.row(key)
		if row == nil {
			if _, err := b.Handle(t.Context(), &wire.Request{Key: key}); err == nil ||
				b.FrameMax(key) != 0 {
				t.Errorf("key %d is answered", key)
			}
			continue
		}
		for _, version := range []int16{-1, row.min - 1, row.max + 1, math.MaxInt16} {
			if _, err := b.Handle(t.Context(),
				&wire.Request{Key: key, Version: version,
					Body: kbin.AppendInt32(nil, 0)}); err == nil && key != api.KeyAPIVersions {
				t.Errorf("%s version %d is answered", row.name, version)
			}
		}
	}
}

// TestCreatedAndDeletedTopicsAreVisibleInTheImage checks that the response is sent only after the
// metadata image contains the change. Clients send their next request immediately, and librdkafka's
// describe_configs does not retry.
func TestCreatedAndDeletedTopicsAreVisibleInTheImage(t *testing.T) {
	b := newBroker(t)
	b.lazy = true
	if code := b.create(7, "tickets", nil).ErrorCode; code != 0 {
		t.Fatalf("create: error %d", code)
	}
	if b.image.Load().Topic("tickets") == nil {
		t.Error("the image does not have the created topic")
	}
	for _, version := range []int16{5, 6} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		name := "tickets"
		req.TopicNames, req.Topics = []string{name}, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
		if code := ask[*kmsg.DeleteTopicsResponse](b, version, req).Topics[0].ErrorCode; code != 0 {
			t.Fatalf("delete in version %d: error %d", version, code)
		}
		if b.image.Load().Topic("tickets") != nil {
			t.Error("the image still has the deleted topic")
		}
		if version == 5 {
			b.create(7, "tickets", nil)
		}
	}
}
