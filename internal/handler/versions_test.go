package handler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

// everyVersion runs a test with each version of an API that the table advertises.
func everyVersion(t *testing.T, key int16, run func(t *testing.T, b *broker, version int16)) {
	row := byKey(table)[key]
	for version := row.min; version <= row.max; version++ {
		t.Run(row.name+fmt.Sprint(" ", version),
			func(t *testing.T) { run(t, newBroker(t), version) })
	}
}

func TestProduceThenFetchAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyProduce, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		if version < 3 {
			return // rejected, see quirk 2
		}
		for i := range int64(2) {
			answer := b.produce(version, "tickets", batch(t, compress.None, "a", "b"))
			if answer.ErrorCode != 0 || answer.BaseOffset != 2*i || answer.LogAppendTime != -1 ||
				(version >= 5 && answer.LogStartOffset != 0) {
				t.Errorf("answer %+v", answer)
			}
		}
	})
	everyVersion(t, api.KeyFetch, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		b.mustProduce("tickets", "a", "b")
		b.mustProduce("tickets", "c")
		for offset, want := range map[int64][]string{0: {"a", "b", "c"}, 1: {"a", "b", "c"},
			2: {"c"}, 3: nil} {
			answer := b.fetch(version, "tickets", offset)
			if got := values(t, answer.RecordBatches); !slices.Equal(got, want) ||
				answer.ErrorCode != 0 {
				t.Errorf("offset %d: error %d, values %v, want %v", offset, answer.ErrorCode, got,
					want)
			}
			if answer.HighWatermark != 3 || answer.LastStableOffset != 3 {
				t.Errorf("high watermark %d, stable %d", answer.HighWatermark,
					answer.LastStableOffset)
			}
		}
	})
}

// TestFetchEncoderAtEveryVersion checks that fetchEncoder encodes every field in every version. The
// responses contain several topics, several partitions, and errors.
func TestFetchEncoderAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyFetch, func(t *testing.T, b *broker, version int16) {
		b.topic("a", nil)
		b.topic("b", nil)
		b.mustProduce("b", "value")
		req := fetchRequestFor("a", 0)
		req.IsolationLevel = 1
		req.Topics = append(req.Topics, fetchRequestFor("missing", 0).Topics[0],
			fetchRequestFor("b", 0).Topics[0])
		req.Topics[2].Partitions = append(req.Topics[2].Partitions,
			fetchRequestFor("b", 9).Topics[0].Partitions[0])
		response := ask[*kmsg.FetchResponse](b, version, req)
		var codes []int16
		for _, topic := range response.Topics {
			for _, part := range topic.Partitions {
				codes = append(codes, part.ErrorCode)
				if part.AbortedTransactions == nil && part.ErrorCode == 0 {
					t.Error("read_committed: the aborted transactions are null")
				}
				if version >= 11 && part.PreferredReadReplica != -1 {
					t.Errorf("preferred replica %d", part.PreferredReadReplica)
				}
			}
		}
		unknown := int16(3)
		if version >= 13 {
			unknown = 100 // the missing topic's id is unknown
		}
		if !slices.Equal(codes, []int16{0, unknown, 0, 1}) {
			t.Errorf("error codes %v", codes)
		}
		if got := values(t, response.Topics[2].Partitions[0].RecordBatches); !slices.Equal(got,
			[]string{"value"}) {
			t.Errorf("values %v", got)
		}
	})
}

func TestListOffsetsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyListOffsets, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		b.mustProduce("tickets", "a", "b")
		for timestamp, want := range map[int64]int64{-1: 2, -2: 0, 0: 0, 1 << 60: -1} {
			answer := b.listOffset(version, "tickets", timestamp)
			if answer.ErrorCode != 0 || answer.Offset != want {
				t.Errorf("timestamp %d: %+v, want offset %d", timestamp, answer, want)
			}
			if version >= 4 && want >= 0 && answer.LeaderEpoch != 2 {
				t.Errorf("timestamp %d: leader epoch %d", timestamp, answer.LeaderEpoch)
			}
		}
	})
}

func (b *broker) listOffset(version int16, topic string,
	timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
	b.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp, part.CurrentLeaderEpoch = timestamp, -1
	asked.Partitions = append(asked.Partitions, part)
	req.Topics = append(req.Topics, asked)
	return ask[*kmsg.ListOffsetsResponse](b, version, req).Topics[0].Partitions[0]
}

func TestMetadataAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyMetadata, func(t *testing.T, b *broker, version int16) {
		topic := b.topic("b", nil)
		b.topic("a", func(t *metadata.Topic) {
			t.Partitions[0].Replicas,
				t.Partitions[0].Leader = []int32{3, 2}, 3
		})
		b.topic("__consumer_offsets",
			func(t *metadata.Topic) { t.Partitions[0].Leader = metadata.NoBroker })
		response := ask[*kmsg.MetadataResponse](b, version, allTopics(version))
		if len(response.Brokers) != 2 || response.Brokers[0].Host != "one.example" ||
			response.Brokers[1].Port != 9093 {
			t.Errorf("brokers %+v", response.Brokers)
		}
		if version >= 1 && (response.ControllerID != self || *response.Brokers[0].Rack != "a" ||
			response.Brokers[1].Rack != nil) {
			t.Errorf("controller %d, brokers %+v", response.ControllerID, response.Brokers)
		}
		if version >= 2 && *response.ClusterID != "cluster-1" {
			t.Errorf("cluster id %q", *response.ClusterID)
		}
		var names []string
		for _, topic := range response.Topics {
			names = append(names, *topic.Topic)
		}
		if !slices.Equal(names, []string{"__consumer_offsets", "a", "b"}) {
			t.Fatalf("topics %v", names)
		}
		checkTopics(t, version, response.Topics, topic.ID)
	})
}

func allTopics(version int16) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	if version == 0 {
		req.Topics = []kmsg.MetadataRequestTopic{}
	}
	return req
}

func checkTopics(t *testing.T, version int16, topics []kmsg.MetadataResponseTopic, id metadata.ID) {
	t.Helper()
	internal, a, b := &topics[0], &topics[1], &topics[2]
	if version >= 1 && (!internal.IsInternal || b.IsInternal) {
		t.Error("only __consumer_offsets is internal")
	}
	if internal.Partitions[0].ErrorCode != 5 || internal.Partitions[0].Leader != -1 ||
		internal.ErrorCode != 0 {
		t.Errorf("a partition without leader: %+v", internal)
	}
	part := &b.Partitions[0]
	if part.Leader != self || part.ErrorCode != 0 || !slices.Equal(part.Replicas, []int32{self}) ||
		!slices.Equal(part.ISR, []int32{self}) {
		t.Errorf("partition %+v", part)
	}
	if version >= 5 && !slices.Equal(a.Partitions[0].OfflineReplicas, []int32{2}) {
		t.Errorf("offline replicas %v", a.Partitions[0].OfflineReplicas)
	}
	if version >= 7 && part.LeaderEpoch != 2 {
		t.Errorf("leader epoch %d", part.LeaderEpoch)
	}
	if version >= 10 && b.TopicID != id {
		t.Errorf("topic id %v", b.TopicID)
	}
}

func TestCreateAndDeleteTopicsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyCreateTopics, func(t *testing.T, b *broker, version int16) {
		answer := b.create(version, "orders", func(req *kmsg.CreateTopicsRequestTopic) {
			req.NumPartitions, req.ReplicationFactor = 3, 1
			policy := "compact"
			req.Configs = append(req.Configs,
				kmsg.CreateTopicsRequestTopicConfig{Name: "cleanup.policy", Value: &policy})
		})
		topic := b.image.Load().Topic("orders")
		if answer.ErrorCode != 0 || topic == nil || len(topic.Partitions) != 3 ||
			!topic.Settings.Compact {
			t.Fatalf("answer %+v, topic %+v", answer, topic)
		}
		if version >= 5 && (answer.NumPartitions != 3 || answer.ReplicationFactor != 1 ||
			len(answer.Configs) < 10) {
			t.Errorf("answer %+v", answer)
		}
		if version >= 7 && answer.TopicID != topic.ID {
			t.Errorf("topic id %v, want %v", answer.TopicID, topic.ID)
		}
		if again := b.create(version, "orders", nil); again.ErrorCode != 36 ||
			again.ErrorMessage == nil {
			t.Errorf("created twice: %+v, want error 36", again)
		}
	})
	everyVersion(t, api.KeyDeleteTopics, func(t *testing.T, b *broker, version int16) {
		b.topic("orders", nil)
		for _, want := range []int16{0, 3} {
			name := "orders"
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TopicNames, req.TimeoutMillis = []string{name}, 1000
			if version >= 6 {
				req.TopicNames, req.Topics = nil, []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
			}
			answer := ask[*kmsg.DeleteTopicsResponse](b, version, req).Topics[0]
			if answer.ErrorCode != want || *answer.Topic != name {
				t.Errorf("answer %+v, want error %d", answer, want)
			}
		}
	})
}

func (b *broker) create(version int16, name string,
	change func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsResponseTopic {
	b.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 1000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	if change != nil {
		change(&topic)
	}
	req.Topics = append(req.Topics, topic)
	return ask[*kmsg.CreateTopicsResponse](b, version, req).Topics[0]
}

func TestInitProducerIDAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyInitProducerID, func(t *testing.T, b *broker, version int16) {
		for want := range int64(3) {
			answer := ask[*kmsg.InitProducerIDResponse](b, version,
				kmsg.NewPtrInitProducerIDRequest())
			if answer.ErrorCode != 0 || answer.ProducerID != want+1 || answer.ProducerEpoch != 0 {
				t.Errorf("answer %+v", answer)
			}
		}
	})
}

func TestDescribeClusterAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyDescribeCluster, func(t *testing.T, b *broker, version int16) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 1
		answer := ask[*kmsg.DescribeClusterResponse](b, version, req)
		if answer.ErrorCode != 0 || answer.ClusterID != "cluster-1" ||
			answer.ControllerID != self || len(answer.Brokers) != 2 {
			t.Errorf("answer %+v", answer)
		}
	})
}

func TestAPIVersionsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyAPIVersions, func(t *testing.T, b *broker, version int16) {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "heartwood-test", "1.0"
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, version, req), 0)
	})
}

// checkVersions compares an ApiVersions response with the table.
// checkVersions checks the error code and the table in a response. Only a response without an
// error, or with UNSUPPORTED_VERSION, has a table.
func checkVersions(t *testing.T, answer *kmsg.ApiVersionsResponse, code int16) {
	t.Helper()
	if code != 0 && code != 35 {
		if answer.ErrorCode != code || len(answer.ApiKeys) != 0 {
			t.Errorf("error %d and %d keys, want %d and none", answer.ErrorCode, len(answer.ApiKeys), code)
		}
		return
	}
	if answer.ErrorCode != code || len(answer.ApiKeys) != len(table) {
		t.Fatalf("error %d and %d keys, want %d and %d", answer.ErrorCode, len(answer.ApiKeys),
			code, len(table))
	}
	for i, row := range table {
		if got := answer.ApiKeys[i]; got.ApiKey != row.key || got.MinVersion != row.min ||
			got.MaxVersion != row.max {
			t.Errorf("%s: answer %+v", row.name, got)
		}
	}
}

// TestApiVersionsChecksThePeer checks the errors for clients that mean another cluster or broker
// (KIP-1242). The cases and their errors are those of Apache Kafka 4.4.0.
func TestApiVersionsChecksThePeer(t *testing.T) {
	b := newBroker(t)
	const cluster = "cluster-1"
	for _, c := range []struct {
		cluster *string
		node    int32
		code    int16
	}{
		{nil, -1, 0}, {new(cluster), self, 0}, {new("other"), self, 129}, {new(cluster), 77, 129},
		{new(cluster), -1, 42}, {nil, self, 42}, {nil, 77, 42}, {new(""), self, 129},
		{new("other"), -1, 42}, {new(cluster), -2, 129},
	} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "client", "1"
		req.ClusterID, req.NodeID = c.cluster, c.node
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, 5, req), c.code)
		checkVersions(t, ask[*kmsg.ApiVersionsResponse](b, 4, req), 0) // without the fields
	}
}
