package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// This file tests the quirks that determine which requests clients send. quirks_test.go tests the
// others. internal/wire tests number 16, the order of responses.

// TestQuirk3OnlyImplementedFeaturesAreFinalized checks that no feature is finalized unless its APIs
// are implemented. Clients rely on finalized features: with transaction.version 2, for example,
// they omit AddPartitionsToTxn.
func TestQuirk3OnlyImplementedFeaturesAreFinalized(t *testing.T) {
	b := newBroker(t)
	for _, version := range []int16{3, 4} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "a", "1"
		got := ask[*kmsg.ApiVersionsResponse](b, version, req)
		for _, f := range got.FinalizedFeatures {
			if f.Name == "transaction.version" && f.MaxVersionLevel > 1 && !b.lists(26) {
				t.Errorf("version %d finalizes %+v without EndTxn", version, f)
			}
			if f.Name == "group.version" && f.MaxVersionLevel > 0 && !b.lists(68) {
				t.Errorf("version %d finalizes %+v without ConsumerGroupHeartbeat", version, f)
			}
		}
	}
}

// TestQuirk5UnknownTopicIDs checks requests from version 13 on, which identify topics only by id.
// The error must be 100 if the id is unknown or zero, or belongs to a deleted topic whose name is
// in use again.
func TestQuirk5UnknownTopicIDs(t *testing.T) {
	b := newBroker(t)
	old := b.topic("tickets", nil).ID
	must(t, b.DeleteTopic(t.Context(), "tickets"))
	if again := b.topic("tickets", nil); again.ID == old {
		t.Fatal("a topic that was created again has its old id")
	}
	for _, id := range []metadata.ID{old, {}, metadata.NewID()} {
		fetch := fetchRequestFor("tickets", 0)
		fetch.Topics[0].Topic, fetch.Topics[0].TopicID = "", id
		var fetched kmsg.FetchResponse
		askByID(t, b, 13, fetch, &fetched)
		if got := fetched.Topics[0].Partitions[0].ErrorCode; got != 100 {
			t.Errorf("fetch by %v: error %d", id, got)
		}
		produce := produceRequestFor("tickets", -1, batch(t, compress.None, "a"))
		produce.Topics[0].Topic, produce.Topics[0].TopicID = "", id
		var produced kmsg.ProduceResponse
		askByID(t, b, 13, produce, &produced)
		if got := produced.Topics[0].Partitions[0].ErrorCode; got != 100 {
			t.Errorf("produce by %v: error %d", id, got)
		}
	}
	if got := b.fetch(12, "tickets", 0).HighWatermark; got != 0 {
		t.Errorf("high watermark %d: a rejected batch was appended", got)
	}
}

// askByID sends a request without changing its topic ids. ask, in contrast, sets the ids from the
// topic names.
func askByID(t *testing.T, b *broker, version int16, request kmsg.Request, into kmsg.Response) {
	t.Helper()
	request.SetVersion(version)
	answer, err := b.Handle(t.Context(),
		&wire.Request{Key: request.Key(), Version: version, Body: request.AppendTo(nil)})
	must(t, err)
	into.SetVersion(version)
	must(t, into.ReadFrom(replyBytes(t, answer)))
}

// TestQuirk9MemberIDsAndProtocolsAreChecked checks that a new member gets error 79 and its member
// id from JoinGroup version 4 on (in method join), and that SyncGroup from version 5 on is rejected
// with INCONSISTENT_GROUP_PROTOCOL if its protocol is not the group's.
func TestQuirk9MemberIDsAndProtocolsAreChecked(t *testing.T) {
	b := coordinated(t, newBroker(t))
	joined := b.join(5)
	for version, want := range map[int16]int16{4: 0, 5: 23} {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.Generation, req.MemberID = "group", joined.Generation, joined.MemberID
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID,
			MemberAssignment: []byte("all")}}
		kind, name := "consumer", "roundrobin"
		req.ProtocolType, req.Protocol = &kind, &name
		if got := ask[*kmsg.SyncGroupResponse](b, version, req).ErrorCode; got != want {
			t.Errorf("version %d with another protocol: error %d, want %d", version, got, want)
		}
	}
}

// TestQuirk10ProducerIDs checks that a producer without a transactional id always gets a new
// producer id, even if the request contains its current id and epoch.
func TestQuirk10ProducerIDs(t *testing.T) {
	b := newBroker(t)
	var seen []int64
	for version := range int16(6) {
		for _, last := range []int64{-1, 7} {
			req := kmsg.NewPtrInitProducerIDRequest()
			if last >= 0 {
				req.ProducerID, req.ProducerEpoch = last, 3
			}
			got := ask[*kmsg.InitProducerIDResponse](b, version, req)
			if got.ErrorCode != 0 || got.ProducerEpoch != 0 ||
				slices.Contains(seen, got.ProducerID) {
				t.Errorf("version %d after %d: %+v, given before: %v", version, last, got, seen)
			}
			seen = append(seen, got.ProducerID)
		}
	}
}

// TestQuirk12SASLIsAdvertised checks that ApiVersions lists the SASL APIs on every listener, as in
// Kafka. On a listener without authentication, the response to them is ILLEGAL_SASL_STATE, so a
// client that is configured to authenticate fails immediately with a clear error.
func TestQuirk12SASLIsAdvertised(t *testing.T) {
	b := newBroker(t)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "PLAIN"
	if got := ask[*kmsg.SASLHandshakeResponse](b, 1, handshake); !b.lists(17) ||
		got.ErrorCode != 34 || len(got.SupportedMechanisms) > 0 {
		t.Errorf("SaslHandshake: listed %v, %+v", b.lists(17), got)
	}
	got := ask[*kmsg.SASLAuthenticateResponse](b, 2, kmsg.NewPtrSASLAuthenticateRequest())
	if !b.lists(36) || got.ErrorCode != 34 || !strings.Contains(textOf(got.ErrorMessage), "SASL") {
		t.Errorf("SaslAuthenticate: listed %v, %+v", b.lists(36), got)
	}
}

// TestQuirk15TelemetryIsNotAdvertised checks that ApiVersions does not list the telemetry APIs,
// because clients would otherwise send telemetry.
func TestQuirk15TelemetryIsNotAdvertised(t *testing.T) {
	b := newBroker(t)
	for _, key := range []int16{71, 72} {
		if b.lists(key) {
			t.Errorf("key %d is listed", key)
		}
	}
}
