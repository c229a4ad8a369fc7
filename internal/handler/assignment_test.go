package handler

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
)

// assigned returns a function that assigns replicas to a topic in a CreateTopics request. As
// clients do, the function sets the numbers of partitions and replicas to -1.
func assigned(replicas map[int32][]int32) func(*kmsg.CreateTopicsRequestTopic) {
	return func(r *kmsg.CreateTopicsRequestTopic) {
		r.NumPartitions, r.ReplicationFactor = -1, -1
		for partition, ids := range replicas {
			r.ReplicaAssignment = append(r.ReplicaAssignment,
				kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: ids})
		}
	}
}

// replicasOf returns the replicas of each of the topic's partitions in the metadata image.
func (b *broker) replicasOf(topic string) (all [][]int32) {
	found := b.image.Load().Topic(topic)
	if found == nil {
		return nil
	}
	for _, p := range found.Partitions {
		all = append(all, p.Replicas)
	}
	return all
}

// TestReplicasAreAssignedManually checks manual assignments. Brokers 1 and 3 are up, broker 4 is
// down, and no other broker exists. The error codes must be the same as in Kafka's
// ReplicationControlManager.
func TestReplicasAreAssignedManually(t *testing.T) {
	everyVersion(t, api.KeyCreateTopics, func(t *testing.T, b *broker, version int16) {
		got := b.create(version, "placed", assigned(map[int32][]int32{2: {1, 3}, 0: {3, 1}, 1: {4, 3}}))
		want := [][]int32{{3, 1}, {4, 3}, {1, 3}}
		if got.ErrorCode != 0 || !slices.EqualFunc(b.replicasOf("placed"), want, slices.Equal) {
			t.Errorf("error %d, replicas %v, want %v", got.ErrorCode, b.replicasOf("placed"), want)
		}
		if version >= 5 && (got.NumPartitions != 3 || got.ReplicationFactor != 2) {
			t.Errorf("answer %+v, want 3 partitions with 2 replicas", got)
		}
		for name, c := range map[string]struct {
			change func(*kmsg.CreateTopicsRequestTopic)
			code   int16
		}{
			"a replication factor as well": {func(r *kmsg.CreateTopicsRequestTopic) {
				assigned(map[int32][]int32{0: {1}})(r)
				r.ReplicationFactor = 1
			}, 42},
			"a number of partitions as well": {func(r *kmsg.CreateTopicsRequestTopic) {
				assigned(map[int32][]int32{0: {1}})(r)
				r.NumPartitions = 1
			}, 42},
			"a partition twice": {func(r *kmsg.CreateTopicsRequestTopic) {
				assigned(map[int32][]int32{0: {1}})(r)
				assigned(map[int32][]int32{0: {3}})(r)
			}, 39},
			"a gap":                      {assigned(map[int32][]int32{0: {1}, 2: {1}}), 39},
			"a negative partition":       {assigned(map[int32][]int32{-1: {1}}), 39},
			"no replicas":                {assigned(map[int32][]int32{0: {}}), 39},
			"a broker twice":             {assigned(map[int32][]int32{0: {1, 1}}), 39},
			"a broker that is not there": {assigned(map[int32][]int32{0: {1, 2}}), 39},
			"a negative broker":          {assigned(map[int32][]int32{0: {-1}}), 39},
			"other numbers of replicas":  {assigned(map[int32][]int32{0: {1}, 1: {1, 3}}), 39},
			"brokers that are all down":  {assigned(map[int32][]int32{0: {4}}), 39},
		} {
			if got := b.create(version, "t", c.change); got.ErrorCode != c.code ||
				version >= 1 && got.ErrorMessage == nil || b.replicasOf("t") != nil {
				t.Errorf("%s: %+v, want error %d", name, got, c.code)
			}
		}
	})
}

func TestReplicasOfAddedPartitionsAreAssignedManually(t *testing.T) {
	everyVersion(t, api.KeyCreatePartitions, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		grow := func(count int32, replicas ...[]int32) int16 {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis = 1000
			topic := kmsg.NewCreatePartitionsRequestTopic()
			topic.Topic, topic.Count = "tickets", count
			topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{}
			for _, ids := range replicas {
				topic.Assignment = append(topic.Assignment,
					kmsg.CreatePartitionsRequestTopicAssignment{Replicas: ids})
			}
			req.Topics = append(req.Topics, topic)
			return ask[*kmsg.CreatePartitionsResponse](b, version, req).Topics[0].ErrorCode
		}
		for name, c := range map[string]struct{ got, want int16 }{
			"an assignment too few":           {grow(3, []int32{1}), 39},
			"an assignment too many":          {grow(2, []int32{1}, []int32{3}), 39},
			"no assignment":                   {grow(2), 39},
			"the present number":              {grow(1), 37},
			"another number of replicas":      {grow(2, []int32{1, 3}), 39},
			"a broker that is not there":      {grow(2, []int32{2}), 39},
			"a broker that is down":           {grow(2, []int32{4}), 39},
			"no replicas":                     {grow(2, []int32{}), 39},
			"a replica on each of the others": {grow(3, []int32{3}, []int32{1}), 0},
		} {
			if c.got != c.want {
				t.Errorf("%s: error %d, want %d", name, c.got, c.want)
			}
		}
		want := [][]int32{{1}, {3}, {1}}
		if got := b.replicasOf("tickets"); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("replicas %v, want %v", got, want)
		}
	})
}

// TestLogNamesTheSettingThatCreatesTopics checks that a request for a missing topic is logged with
// the setting that would create it, at most once per minute.
func TestLogNamesTheSettingThatCreatesTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBroker(t)
		b.Logger = slog.New(slog.NewTextHandler(&log, nil))
		expect := func(words ...string) {
			t.Helper()
			text := log.String()
			log.Reset()
			if strings.Count(text, "\n") != min(1, len(words)) {
				t.Errorf("logged %q, want %q", text, words)
			}
			for _, word := range words {
				if !strings.Contains(text, word) {
					t.Errorf("logged %q, want %q", text, word)
				}
			}
		}
		b.metadataOf("orders", false)
		b.metadataOf("a b", true)
		b.metadataOf("__consumer_offsets", true)
		expect()
		b.metadataOf("orders", true)
		expect("topic=orders", `logClusterSettingToCreate="spec.autoCreateTopics: true"`)
		for range 100 {
			b.metadataOf("orders", true)
		}
		expect()
		b.policy.AutoCreate, b.policy.ReadOnly = true, true
		must(t, b.apply())
		time.Sleep(time.Minute)
		b.metadataOf("payments", true)
		expect("topic=payments", `"spec.adminAPI: ReadWrite"`, "requestsNotLogged=100")
		b.policy.ReadOnly = false
		must(t, b.apply())
		time.Sleep(time.Minute)
		b.metadataOf("payments", true)
		expect()
	})
}
