package handler

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func TestCreatePartitionsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyCreatePartitions, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		grow := func(name string, count int32,
			change func(*kmsg.CreatePartitionsRequestTopic)) int16 {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis = 1000
			topic := kmsg.NewCreatePartitionsRequestTopic()
			topic.Topic, topic.Count = name, count
			if change != nil {
				change(&topic)
			}
			req.Topics = append(req.Topics, topic)
			return ask[*kmsg.CreatePartitionsResponse](b, version, req).Topics[0].ErrorCode
		}
		if code := grow("tickets", 3, nil); code != 0 ||
			len(b.image.Load().Topic("tickets").Partitions) != 3 {
			t.Errorf("error %d", code)
		}
		if codes := []int16{grow("tickets", 3, nil),
			grow("none", 3, nil)}; !slices.Equal(codes, []int16{37, 3}) {
			t.Errorf("error codes %v", codes)
		}
	})
}

func TestCreatePartitionsValidatesAndRejectsDuplicates(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", nil)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.ValidateOnly = true
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "tickets", Count: 2}}
	if code := ask[*kmsg.CreatePartitionsResponse](b, 3, req).Topics[0].ErrorCode; code != 0 ||
		len(b.image.Load().Topic("tickets").Partitions) != 1 {
		t.Errorf("validate only: error %d, or partitions were created", code)
	}
	req.ValidateOnly = false
	req.Topics = append(req.Topics, req.Topics[0])
	for _, topic := range ask[*kmsg.CreatePartitionsResponse](b, 3, req).Topics {
		if topic.ErrorCode != 42 || topic.ErrorMessage == nil {
			t.Errorf("duplicate topic: %+v, want error 42", topic)
		}
	}
}

func deleteRecordsRequest(topic string, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 1000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic,
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	return req
}

func (b *broker) deleteRecords(version int16, topic string, offset int64) (code int16, low int64) {
	b.t.Helper()
	answer := ask[*kmsg.DeleteRecordsResponse](b, version,
		deleteRecordsRequest(topic, offset)).Topics[0].Partitions[0]
	return answer.ErrorCode, answer.LowWatermark
}

func TestDeleteRecordsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyDeleteRecords, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		b.topic("compacted", func(t *metadata.Topic) {
			t.Settings.Delete,
				t.Settings.Compact = false, true
		})
		b.topic("elsewhere", func(t *metadata.Topic) { t.Partitions[0].Leader = 3 })
		b.topic("__consumer_offsets", nil)
		b.mustProduce("tickets", "a", "b", "c")
		for _, test := range []struct {
			topic     string
			offset    int64
			code      int16
			low, left int64
		}{
			{"tickets", 2, 0, 2, 2}, {"tickets", 1, 0, 2, 2}, {"tickets", 4, 1, -1, 2},
			{"tickets", -2, 1, -1, 2}, {"tickets", -1, 0, 3, 3},
			{"compacted", 0, 44, -1, 0}, {"elsewhere", 0, 6, -1, -1}, {"none", 0, 3, -1, -1},
			{"__consumer_offsets", 0, 17, -1, 0},
		} {
			code, low := b.deleteRecords(version, test.topic, test.offset)
			if code != test.code || low != test.low {
				t.Errorf("%s at %d: error %d, low watermark %d; want %d, %d", test.topic,
					test.offset, code, low, test.code, test.low)
			}
			if test.left >= 0 && b.listOffset(5, test.topic, -2).Offset != test.left {
				t.Errorf("%s at %d: log start offset is %d", test.topic, test.offset,
					b.listOffset(5, test.topic, -2).Offset)
			}
		}
	})
}

// TestDeleteRecordsWaitsForTheISR produces a record that the in-sync broker 3 does not have. It
// checks that records above the high watermark cannot be deleted, and that deleting below offset 0
// does not wait.
func TestDeleteRecordsWaitsForTheISR(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", func(t *metadata.Topic) {
		t.Partitions[0].Replicas, t.Partitions[0].ISR = []int32{self, 3}, []int32{self, 3}
	})
	// Broker 3 does not fetch, so the record remains above the high watermark.
	b.produce(9, "tickets", batch(t, compress.None, "a"))
	req := deleteRecordsRequest("tickets", 0)
	req.TimeoutMillis = 50
	if code, _ := b.deleteRecords(2, "tickets", 1); code != 1 {
		t.Errorf("above the high watermark: error %d", code)
	}
	if answer := ask[*kmsg.DeleteRecordsResponse](b, 2,
		req).Topics[0].Partitions[0]; answer.ErrorCode != 0 || answer.LowWatermark != 0 {
		t.Errorf("nothing to delete: %+v", answer)
	}
}

func (b *broker) alter(
	version int16,
	kind kmsg.ConfigResourceType,
	name string,
	configs ...kmsg.IncrementalAlterConfigsRequestResourceConfig,
) kmsg.IncrementalAlterConfigsResponseResource {
	b.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kind, name, configs
	req.Resources = append(req.Resources, resource)
	return ask[*kmsg.IncrementalAlterConfigsResponse](b, version, req).Resources[0]
}

func configChange(name string, op kmsg.IncrementalAlterConfigOp,
	value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: &value}
}

func TestAlterConfigsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyIncrementalAlterConfigs, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		topic, broker := kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
		set := func(name, value string) int16 {
			return b.alter(version, topic, "tickets", configChange(name, 0, value)).ErrorCode
		}
		if code := set("retention.ms", "1000"); code != 0 ||
			b.image.Load().Topic("tickets").Settings.RetentionTime != time.Second {
			t.Errorf("set: error %d", code)
		}
		if got := b.alter(version, topic, "tickets",
			configChange("cleanup.policy", 2, "compact")); got.ErrorCode != 0 ||
			!b.image.Load().Topic("tickets").Settings.Compact {
			t.Errorf("append: %+v", got)
		}
		if got := b.alter(version, topic, "tickets", configChange("cleanup.policy", 3, "delete"),
			configChange("retention.ms", 1, "")); got.ErrorCode != 0 {
			t.Errorf("subtract and delete: %+v", got)
		}
		if s := b.image.Load().Topic("tickets").Settings; s.Delete ||
			s.RetentionTime != topicconfig.Default().RetentionTime {
			t.Errorf("settings %+v", s)
		}
		if codes := []int16{
			set("retention.ms", "x"), set("no.such", "1"),
			b.alter(version, topic, "none", configChange("retention.ms", 0, "1")).ErrorCode,
			b.alter(version, topic, "tickets",
				kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "retention.ms"}).ErrorCode,
			b.alter(version, broker, "1", configChange("log.retention.ms", 0, "1")).ErrorCode,
			b.alter(version, broker, "1",
				configChange("leader.replication.throttled.rate", 1, "")).ErrorCode,
			b.alter(version, 99, "1").ErrorCode,
		}; !slices.Equal(codes, []int16{40, 40, 3, 42, 40, 0, 42}) {
			t.Errorf("error codes %v", codes)
		}
	})
	everyVersion(t, api.KeyAlterConfigs, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", func(t *metadata.Topic) {
			t.Settings.RetentionTime,
				t.Settings.MaxGarbagePercent = time.Second, 5
		})
		value := "65536"
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Resources = []kmsg.AlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "tickets",
			Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.bytes",
				Value: &value}},
		}}
		got := ask[*kmsg.AlterConfigsResponse](b, version, req).Resources[0]
		want := topicconfig.Default()
		want.SegmentBytes, want.MaxGarbagePercent = 65536, 5
		if got.ErrorCode != 0 || b.image.Load().Topic("tickets").Settings != want {
			t.Errorf("%+v; settings %+v", got, b.image.Load().Topic("tickets").Settings)
		}
	})
}

func TestDescribeLogDirsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyDescribeLogDirs, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		b.topic("other", nil)
		b.mustProduce("tickets", "a")
		all := ask[*kmsg.DescribeLogDirsResponse](b, version, kmsg.NewPtrDescribeLogDirsRequest())
		if all.ErrorCode != 0 || len(all.Dirs) != 1 || all.Dirs[0].Dir != "/data" ||
			len(all.Dirs[0].Topics) != 2 {
			t.Fatalf("answer %+v", all)
		}
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "tickets",
			Partitions: []int32{0, 1}}, {Topic: "none", Partitions: []int32{0}}}
		topics := ask[*kmsg.DescribeLogDirsResponse](b, version, req).Dirs[0].Topics
		if len(topics) != 1 || len(topics[0].Partitions) != 1 ||
			topics[0].Partitions[0].Size == 0 || topics[0].Partitions[0].IsFuture {
			t.Errorf("topics %+v", topics)
		}
	})
}

func TestElectLeadersAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyElectLeaders, func(t *testing.T, b *broker, version int16) {
		b.topic("led by another", func(t *metadata.Topic) {
			t.Partitions[0].Replicas, t.Partitions[0].ISR,
				t.Partitions[0].Leader = []int32{3, self}, []int32{self, 3}, self
		})
		b.topic("preferred", nil)
		b.topic("preferred down",
			func(t *metadata.Topic) { t.Partitions[0].Replicas = []int32{3, self} })
		elect := func(topics []kmsg.ElectLeadersRequestTopic) (codes []int16) {
			req := kmsg.NewPtrElectLeadersRequest()
			req.TimeoutMillis, req.Topics = 1000, topics
			for _, topic := range ask[*kmsg.ElectLeadersResponse](b, version, req).Topics {
				codes = append(codes, topic.Partitions[0].ErrorCode)
			}
			return codes
		}
		named := func(topic string) kmsg.ElectLeadersRequestTopic {
			return kmsg.ElectLeadersRequestTopic{Topic: topic, Partitions: []int32{0}}
		}
		got := elect([]kmsg.ElectLeadersRequestTopic{named("preferred"), named("preferred down"),
			named("none")})
		if !slices.Equal(got, []int16{84, 80, 3}) {
			t.Errorf("error codes %v", got)
		}
		if got := elect(nil); !slices.Equal(got, []int16{0}) ||
			b.image.Load().Topic("led by another").Partitions[0].Leader != 3 {
			t.Errorf("all: error codes %v", got)
		}
	})
	b := newBroker(t)
	b.topic("tickets", nil)
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType = 1
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "tickets", Partitions: []int32{0}}}
	if code := ask[*kmsg.ElectLeadersResponse](b, 2,
		req).Topics[0].Partitions[0].ErrorCode; code != 44 {
		t.Errorf("unclean: error %d", code)
	}
}

func TestQuirk14DescribeTopicPartitionsInPages(t *testing.T) {
	b := newBroker(t)
	for _, name := range []string{"a", "b", "c"} {
		b.topic(name, func(t *metadata.Topic) {
			for i := int32(1); i < 3; i++ {
				t.Partitions = append(t.Partitions,
					&metadata.Partition{Index: i, Replicas: []int32{self, 2}, Leader: self,
						ISR: []int32{self}})
			}
		})
	}
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2
	var seen []string
	for range 10 {
		answer := ask[*kmsg.DescribeTopicPartitionsResponse](b, 0, req)
		for _, topic := range answer.Topics {
			for _, p := range topic.Partitions {
				seen = append(seen, *topic.Topic+string('0'+p.Partition))
				if p.EligibleLeaderReplicas == nil || p.LastKnownELR == nil {
					t.Error("a list is null, which crashes Java's client")
				}
				if p.LeaderID != self || p.Partition > 0 &&
					!slices.Equal(p.OfflineReplicas, []int32{2}) {
					t.Errorf("partition %+v", p)
				}
			}
		}
		if answer.NextCursor == nil {
			break
		}
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: answer.NextCursor.Topic,
			Partition: answer.NextCursor.Partition}
	}
	if !slices.Equal(seen, []string{"a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"}) {
		t.Errorf("described partitions %v", seen)
	}
	req = kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "c"}, {Topic: "a b"},
		{Topic: "none"}, {Topic: "c"}}
	var codes []int16
	for _, topic := range ask[*kmsg.DescribeTopicPartitionsResponse](b, 0, req).Topics {
		codes = append(codes, topic.ErrorCode)
	}
	if !slices.Equal(codes, []int16{17, 0, 3}) {
		t.Errorf("error codes %v", codes)
	}
}

// TestReadOnlyRejectsEveryWrite checks that every admin request that changes something is rejected
// with POLICY_VIOLATION if the LogCluster sets adminAPI: ReadOnly.
func TestReadOnlyRejectsEveryWrite(t *testing.T) {
	b := newBroker(t)
	b.policy = metadata.AdminPolicy{ReadOnly: true, AutoCreate: true}
	b.topic("tickets", nil)
	b.mustProduce("tickets", "a")
	before := b.image.Load()
	codes := map[string]int16{"create": b.create(7, "orders", nil).ErrorCode}
	codes["delete records"], _ = b.deleteRecords(2, "tickets", 1)
	codes["alter"] = b.alter(1, kmsg.ConfigResourceTypeTopic, "tickets",
		configChange("retention.ms", 0, "1")).ErrorCode
	name := "tickets"
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}}
	codes["delete"] = ask[*kmsg.DeleteTopicsResponse](b, 6, remove).Topics[0].ErrorCode
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 2}}
	codes["grow"] = ask[*kmsg.CreatePartitionsResponse](b, 3, grow).Topics[0].ErrorCode
	replace := kmsg.NewPtrAlterConfigsRequest()
	replace.Resources = []kmsg.AlterConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name},
	}
	codes["replace"] = ask[*kmsg.AlterConfigsResponse](b, 2, replace).Resources[0].ErrorCode
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}
	codes["elect"] = ask[*kmsg.ElectLeadersResponse](b, 2, elect).Topics[0].Partitions[0].ErrorCode
	codes["reassign"] = ask[*kmsg.AlterPartitionAssignmentsResponse](b, 1,
		kmsg.NewPtrAlterPartitionAssignmentsRequest()).ErrorCode
	for what, code := range codes {
		if code != 44 {
			t.Errorf("%s: error %d, want 44", what, code)
		}
	}
	if code := b.metadataOf("mistyped", true); code != 3 {
		t.Errorf("auto-creation: error %d, want 3", code)
	}
	if b.image.Load() != before {
		t.Error("the metadata image has changed")
	}
}

func (b *broker) metadataOf(topic string, allow bool) int16 {
	b.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = allow
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &topic}}
	return ask[*kmsg.MetadataResponse](b, 9, req).Topics[0].ErrorCode
}

func TestMetadataCreatesTopicsIfTheClusterAllowsIt(t *testing.T) {
	b := newBroker(t)
	if code := b.metadataOf("orders", true); code != 3 {
		t.Errorf("without autoCreateTopics: error %d, want 3", code)
	}
	b.policy.AutoCreate = true
	must(t, b.apply())
	if codes := []int16{b.metadataOf("orders", false), b.metadataOf("a b", true),
		b.metadataOf("__consumer_offsets", true),
		b.metadataOf("orders", true)}; !slices.Equal(codes, []int16{3, 17, 3, 0}) {
		t.Errorf("error codes %v", codes)
	}
}

func TestInitProducerIDNeedsIDAndEpochTogether(t *testing.T) {
	b := newBroker(t)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = 5, -1
	if answer := ask[*kmsg.InitProducerIDResponse](b, 4, req); answer.ErrorCode != 42 ||
		answer.ProducerID != -1 {
		t.Errorf("answer %+v", answer)
	}
	req.ProducerEpoch = 3 // the response contains a new producer id, as in Kafka
	if answer := ask[*kmsg.InitProducerIDResponse](b, 4, req); answer.ErrorCode != 0 ||
		answer.ProducerID == 5 || answer.ProducerEpoch != 0 {
		t.Errorf("answer %+v", answer)
	}
	empty := ""
	req.TransactionalID = &empty
	if answer := ask[*kmsg.InitProducerIDResponse](b, 4, req); answer.ErrorCode != 42 {
		t.Errorf("answer %+v", answer)
	}
}

// TestAdminRequestsOfAPartitionWithoutReplicas sends admin requests for a partition without
// replicas. A metadata image contains such a partition if it has an entry for a partition with a
// higher index, but none for this one.
func TestAdminRequestsOfAPartitionWithoutReplicas(t *testing.T) {
	b := newBroker(t)
	b.topic("tickets", func(t *metadata.Topic) {
		t.Partitions = []*metadata.Partition{{Leader: metadata.NoBroker},
			{Index: 1, Replicas: []int32{self}, Leader: self, ISR: []int32{self}}}
	})
	elect := kmsg.NewPtrElectLeadersRequest()
	if topics := ask[*kmsg.ElectLeadersResponse](b, 2, elect).Topics; len(topics) != 0 {
		t.Errorf("elections of all: %+v", topics)
	}
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "tickets", Partitions: []int32{0}}}
	if code := ask[*kmsg.ElectLeadersResponse](b, 2,
		elect).Topics[0].Partitions[0].ErrorCode; code != 80 {
		t.Errorf("election: error %d, want PREFERRED_LEADER_NOT_AVAILABLE", code)
	}
	if topics := ask[*kmsg.ListPartitionReassignmentsResponse](b, 0,
		kmsg.NewPtrListPartitionReassignmentsRequest()).Topics; len(topics) != 0 {
		t.Errorf("reassignments: %+v", topics)
	}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
		Topic:      "tickets",
		Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{self}}},
	}}
	if code := ask[*kmsg.AlterPartitionAssignmentsResponse](b, 1,
		move).Topics[0].Partitions[0].ErrorCode; code != 39 {
		t.Errorf("reassignment: error %d, want INVALID_REPLICA_ASSIGNMENT", code)
	}
	for _, p := range ask[*kmsg.MetadataResponse](b, 13,
		kmsg.NewPtrMetadataRequest()).Topics[0].Partitions {
		if offline := p.ErrorCode == 5; offline != (p.Partition == 0) {
			t.Errorf("partition %d: error %d", p.Partition, p.ErrorCode)
		}
	}
}
