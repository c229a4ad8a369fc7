package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/internal/wire"
)

func TestUnmappedErrorIsLogged(t *testing.T) {
	var log bytes.Buffer
	b := newBroker(t)
	b.configure(func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.ProducerID = func() (int64, error) { return 0, errors.New("unexpected failure") }
	})
	answer := ask[*kmsg.InitProducerIDResponse](b, 4, kmsg.NewPtrInitProducerIDRequest())
	if answer.ErrorCode != -1 || strings.Count(log.String(), "unexpected failure") != 1 {
		t.Errorf("answer %+v, log %q", answer, log.String())
	}
}

// TestProduceErrors checks the errors for invalid produce requests in several versions.
func TestProduceErrors(t *testing.T) {
	b := newBroker(t)
	b.topic("plain", func(t *metadata.Topic) {
		must(b.t,
			t.Settings.Set("max.message.bytes", "200"))
	})
	b.topic("compacted", func(t *metadata.Topic) {
		must(b.t,
			t.Settings.Set("cleanup.policy", "compact"))
	})
	b.topic("elsewhere", func(t *metadata.Topic) {
		t.Partitions[0].Leader,
			t.Partitions[0].Replicas = 3, []int32{3}
	})
	good := batch(t, compress.None, "a", "b")
	changed := func(position int, to byte) []byte {
		other := slices.Clone(good)
		other[position] = to
		return other
	}
	for name, c := range map[string]struct {
		topic   string
		records []byte
		code    int16
	}{
		"unknown topic":     {"missing", good, 3},
		"not the leader":    {"elsewhere", good, 6},
		"no key":            {"compacted", good, 87},
		"too large":         {"plain", batch(t, compress.None, string(make([]byte, 500))), 10},
		"checksum":          {"plain", changed(len(good)-1, 0x55), 2},
		"magic 0":           {"plain", changed(16, 0), 87},
		"magic 1":           {"plain", changed(16, 1), 87},
		"magic 3":           {"plain", changed(16, 3), 87},
		"two batches":       {"plain", slices.Concat(good, good), 87},
		"null":              {"plain", nil, 87},
		"no whole batch":    {"plain", good[:70], 87},
		"base offset not 0": {"plain", changed(7, 1), 87},
		"in a transaction": {"plain",
			batchOf(t, compress.None, record.Identity{Transactional: true, ProducerID: 1}, "a"),
			53},
		"valid": {"plain", good, 0},
	} {
		for _, version := range []int16{3, 7, 8, 12} {
			answer := b.produce(version, c.topic, slices.Clone(c.records))
			if answer.ErrorCode != c.code {
				t.Errorf("%s, version %d: error %d, want %d", name, version, answer.ErrorCode,
					c.code)
			}
			if c.code != 0 && (answer.BaseOffset != -1 ||
				(version >= 8) != (answer.ErrorMessage != nil)) {
				t.Errorf("%s, version %d: %+v", name, version, answer)
			}
		}
	}
}

// TestProduceNamesInvalidRecords checks that the response lists the invalid records (KIP-467).
func TestProduceNamesInvalidRecords(t *testing.T) {
	b := newBroker(t)
	b.topic("compacted", func(t *metadata.Topic) {
		must(b.t,
			t.Settings.Set("cleanup.policy", "compact"))
	})
	answer := b.produce(8, "compacted", batch(t, compress.None, "a", "b"))
	if len(answer.ErrorRecords) == 0 || answer.ErrorRecords[0].RelativeOffset != 0 ||
		!strings.HasSuffix(*answer.ErrorRecords[0].ErrorMessage, "in topic partition compacted-0") ||
		!strings.HasSuffix(*answer.ErrorMessage, "in topic partition compacted-0") {
		t.Errorf("answer %+v", answer)
	}
}

func TestProduceAnswersInTheOrderOfTheRequest(t *testing.T) {
	b := newBroker(t)
	b.topic("a", nil)
	b.topic("b", nil)
	one := func() []byte { return batch(t, compress.None, "x") }
	req := produceRequestFor("a", 1, one(), one())
	req.Topics = append(req.Topics, produceRequestFor("missing", 1, one()).Topics[0],
		kmsg.ProduceRequestTopic{Topic: "none"},
		produceRequestFor("b", 1, one()).Topics[0])
	response := ask[*kmsg.ProduceResponse](b, 9, req)
	var got []string
	if name := response.Topics[2].Topic; name != "none" {
		t.Errorf("a topic without partitions is answered as %q", name)
	}
	for _, topic := range response.Topics {
		for _, part := range topic.Partitions {
			got = append(got, fmt.Sprint(topic.Topic, part.Partition, " ", part.ErrorCode))
		}
	}
	if want := []string{"a0 0", "a1 3", "missing0 3", "b0 0"}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
}

func TestProduceReturnsLogAppendTime(t *testing.T) {
	b := newBroker(t)
	b.topic("stamped", func(t *metadata.Topic) {
		must(b.t,
			t.Settings.Set("message.timestamp.type", "LogAppendTime"))
	})
	before := time.Now().UnixMilli()
	if got := b.produce(9, "stamped", batch(t, compress.None, "a")); got.LogAppendTime < before ||
		got.LogAppendTime > time.Now().UnixMilli() {
		t.Errorf("log append time %d", got.LogAppendTime)
	}
}

// TestFullDiskFailsTheProduce checks that a produce request fails with KAFKA_STORAGE_ERROR if
// writing to the disk fails.
func TestFullDiskFailsTheProduce(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "kept")
	b.disk.Inject(vfs.Rule{Op: vfs.OpWrite})
	if got := b.produce(9, "tickets", batch(t, compress.None, "lost")); got.ErrorCode != 56 ||
		got.ErrorMessage == nil {
		t.Errorf("answer %+v", got)
	}
}

func TestFetchErrors(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	b.mustProduce("tickets", "a")
	for _, c := range []struct {
		offset int64
		epoch  int32
		code   int16
	}{{0, 2, 0}, {1, -1, 0}, {2, -1, 1}, {-1, -1, 1}, {0, 1, 74}, {0, 3, 75}} {
		req := fetchRequestFor("tickets", c.offset)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = c.epoch
		if got := ask[*kmsg.FetchResponse](b, 12,
			req).Topics[0].Partitions[0]; got.ErrorCode != c.code {
			t.Errorf("offset %d epoch %d: %+v", c.offset, c.epoch, got)
		}
	}
	req := fetchRequestFor("tickets", 0)
	req.ReplicaID = 2
	if got := ask[*kmsg.FetchResponse](b, 12, req).Topics[0].Partitions[0]; got.ErrorCode != 42 {
		t.Errorf("a follower's fetch: %+v", got)
	}
}

// TestQuirk7FetchWaits checks that a fetch waits until a record is produced, or its client
// disconnects.
func TestQuirk7FetchWaits(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	waiting := func(ctx context.Context) chan wire.Reply {
		req := fetchRequestFor("tickets", 0)
		req.SetVersion(12)
		req.MaxWaitMillis = 1 << 30
		done := make(chan wire.Reply, 1)
		go func() {
			reply, _ := b.Handle(ctx,
				&wire.Request{Key: api.KeyFetch, Version: 12, Body: req.AppendTo(nil)})
			done <- reply
		}()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := waiting(ctx)
	cancel()
	replyBytes(t, <-gone)
	woken := waiting(t.Context())
	b.mustProduce("tickets", "new")
	req := fetchRequestFor("tickets", 0)
	req.SetVersion(12)
	part := decodeReply[*kmsg.FetchResponse](t, req, <-woken).Topics[0].Partitions[0]
	if got := values(t, part.RecordBatches); !slices.Equal(got, []string{"new"}) {
		t.Errorf("values %v", got)
	}
}

func TestCreateTopicErrors(t *testing.T) {
	b := newBroker(t)
	for name, c := range map[string]struct {
		topic  string
		change func(*kmsg.CreateTopicsRequestTopic)
		code   int16
	}{
		"bad name":   {"a b", nil, 17},
		"no name":    {"", nil, 17},
		"partitions": {"t", func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 0 }, 37},
		"replication": {"t", func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 0 },
			38},
		"setting":    {"t", withConfig("no.such", new("1")), 40},
		"value":      {"t", withConfig("segment.bytes", new("many")), 40},
		"null value": {"t", withConfig("segment.bytes", nil), 40},
	} {
		if got := b.create(7, c.topic, c.change); got.ErrorCode != c.code ||
			got.ErrorMessage == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	duplicates := kmsg.NewPtrCreateTopicsRequest()
	duplicates.TimeoutMillis = 1000
	duplicates.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1},
		{Topic: "t", NumPartitions: 1}}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](b, 7, duplicates).Topics {
		if topic.ErrorCode != 42 {
			t.Errorf("duplicate topic: %+v, want error 42", topic)
		}
	}
	check := kmsg.NewPtrCreateTopicsRequest()
	check.ValidateOnly = true
	check.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 1,
		ReplicationFactor: 1}}
	if got := ask[*kmsg.CreateTopicsResponse](b, 7, check).Topics[0]; got.ErrorCode != 0 ||
		b.image.Load().Topic("t") != nil {
		t.Errorf("validate only: %+v, or the topic was created", got)
	}
}

func withConfig(name string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
	return func(r *kmsg.CreateTopicsRequestTopic) {
		r.Configs = append(r.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: value})
	}
}

// TestMetadataCreatesNoTopicsByDefault checks that Metadata creates no topic, unless both the
// request and the LogCluster allow it.
func TestMetadataCreatesNoTopicsByDefault(t *testing.T) {
	b := newBroker(t)
	for name, want := range map[string]int16{"missing": 3, "bad name": 17} {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = true
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		got := ask[*kmsg.MetadataResponse](b, 9, req).Topics[0]
		if got.ErrorCode != want || *got.Topic != name || len(b.topics) != 0 {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

func TestAuthorizedOperationsOnRequest(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	req := kmsg.NewPtrMetadataRequest()
	got := ask[*kmsg.MetadataResponse](b, 8, req)
	if got.AuthorizedOperations != api.OperationsOmitted ||
		got.Topics[0].AuthorizedOperations != api.OperationsOmitted {
		t.Errorf("not requested: %+v", got)
	}
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	got = ask[*kmsg.MetadataResponse](b, 8, req)
	if got.AuthorizedOperations != kafkaClusterOperations ||
		got.Topics[0].AuthorizedOperations != kafkaTopicOperations {
		t.Errorf("requested: %+v", got)
	}
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.IncludeClusterAuthorizedOperations = true
	if got := ask[*kmsg.DescribeClusterResponse](b, 2, cluster); got.
		ClusterAuthorizedOperations != kafkaClusterOperations {
		t.Errorf("DescribeCluster: got %d, want %d", got.ClusterAuthorizedOperations,
			kafkaClusterOperations)
	}
}

// The authorized operations that Apache Kafka 4.3.1 returns without an authorizer.
const (
	kafkaClusterOperations = 8096
	kafkaTopicOperations   = 3576
	kafkaGroupOperations   = 3400
)
