package handler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// coordinated makes a broker the coordinator of all groups, and waits until the coordinator has
// loaded. It also creates a topic "tickets" with four partitions.
func coordinated(t *testing.T, b *broker) *broker {
	t.Helper()
	b.topic("tickets", func(topic *metadata.Topic) {
		for i := range int32(3) {
			topic.Partitions = append(topic.Partitions, &metadata.Partition{
				Index: i + 1, Replicas: []int32{self}, Leader: self, LeaderEpoch: 2,
				ISR: []int32{self},
			})
		}
	})
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "group"
	if answer := ask[*kmsg.FindCoordinatorResponse](b, 0, find); answer.ErrorCode != 0 ||
		answer.NodeID != self {
		t.Fatalf("coordinator: %+v", answer)
	}
	await.Until(t, "the coordinator has loaded", func() bool {
		return ask[*kmsg.ListGroupsResponse](b, 0, kmsg.NewPtrListGroupsRequest()).ErrorCode == 0
	})
	return b
}

func joinRequest(member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "group", member,
		30_000, 30_000
	req.ProtocolType = "consumer"
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = []string{"tickets"}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range",
		Metadata: metadata.AppendTo(nil)}}
	return req
}

// join joins group "group" as its only member. From version 4 on, it first joins without a member
// id, and then again with the member id from the response.
func (b *broker) join(version int16) *kmsg.JoinGroupResponse {
	b.t.Helper()
	answer := ask[*kmsg.JoinGroupResponse](b, version, joinRequest(""))
	if version >= 4 {
		if answer.ErrorCode != 79 || answer.MemberID == "" {
			b.t.Fatalf("first join: %+v", answer)
		}
		answer = ask[*kmsg.JoinGroupResponse](b, version, joinRequest(answer.MemberID))
	}
	if answer.ErrorCode != 0 || answer.LeaderID != answer.MemberID || *answer.Protocol != "range" ||
		len(answer.Members) != 1 {
		b.t.Fatalf("join: %+v", answer)
	}
	return answer
}

func (b *broker) sync(version int16, joined *kmsg.JoinGroupResponse) *kmsg.SyncGroupResponse {
	b.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = "group", joined.Generation, joined.MemberID
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID,
		MemberAssignment: []byte("all")}}
	kind, name := "consumer", "range"
	req.ProtocolType, req.Protocol = &kind, &name
	return ask[*kmsg.SyncGroupResponse](b, version, req)
}

func (b *broker) heartbeat(version int16, joined *kmsg.JoinGroupResponse) int16 {
	b.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = "group", joined.Generation, joined.MemberID
	return ask[*kmsg.HeartbeatResponse](b, version, req).ErrorCode
}

// TestGroupSettingsAreDescribed checks that DescribeConfigs returns the group settings in effect,
// from the LogCluster or as defaults.
func TestGroupSettingsAreDescribed(t *testing.T) {
	b := newBroker(t)
	b.cluster = &v1alpha1.LogCluster{}
	b.cluster.Spec.Groups = &v1alpha1.Groups{
		MinSessionTimeout:     &metav1.Duration{Duration: time.Second},
		InitialRebalanceDelay: &metav1.Duration{},
		OffsetsRetention:      &metav1.Duration{Duration: 3 * time.Hour},
		MaxOffsetMetadata:     resource.NewQuantity(0, resource.BinarySI),
	}
	must(t, b.changed())
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{
		{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"},
	}
	described := map[string]string{}
	for _, c := range ask[*kmsg.DescribeConfigsResponse](b, 4, req).Resources[0].Configs {
		if c.Value == nil {
			continue
		}
		described[c.Name] = fmt.Sprint(*c.Value, " ", c.Source, " ", c.ReadOnly)
	}
	for name, want := range map[string]string{
		"group.min.session.timeout.ms":     "1000 DYNAMIC_DEFAULT_BROKER_CONFIG false",
		"group.max.session.timeout.ms":     "1800000 DEFAULT_CONFIG false",
		"group.initial.rebalance.delay.ms": "0 DYNAMIC_DEFAULT_BROKER_CONFIG false",
		"group.max.size":                   "2147483647 DEFAULT_CONFIG false",
		"offset.metadata.max.bytes":        "0 DYNAMIC_DEFAULT_BROKER_CONFIG false",
		"offsets.retention.minutes":        "180 DYNAMIC_DEFAULT_BROKER_CONFIG false",
	} {
		if described[name] != want {
			t.Errorf("%s is %q, want %q", name, described[name], want)
		}
	}
}

func TestFindCoordinatorAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyFindCoordinator, func(t *testing.T, b *broker, version int16) {
		for kind, want := range map[int8]int16{0: 0, 1: 0, 2: 42} {
			if version == 0 && kind > 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = "group", kind,
				[]string{"group", "other"}
			answer := ask[*kmsg.FindCoordinatorResponse](b, version, req)
			if version < 4 {
				answer.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{
					{Key: "group", NodeID: answer.NodeID, Host: answer.Host, Port: answer.Port,
						ErrorCode: answer.ErrorCode},
				}
			}
			for _, found := range answer.Coordinators {
				if found.ErrorCode != want || want == 0 &&
					(found.NodeID != self || found.Host != "one.example" || found.Port != 9092) {
					t.Errorf("type %d: %+v, want error %d", kind, found, want)
				}
			}
		}
		topic := b.image.Load().Topic(coordinator.OffsetsTopic)
		if topic == nil || len(topic.Partitions) != 50 {
			t.Fatalf("the offsets topic was created as %+v, want 50 partitions", topic)
		}
		if !topic.Internal || !topic.Settings.Compact {
			t.Errorf("the offsets topic %+v is not internal and compacted", topic)
		}
		if got := topic.Settings.SegmentBytes; got != 100<<20 {
			t.Errorf("segments of the offsets topic: %d bytes, want 100Mi", got)
		}
		topic = b.image.Load().Topic(metadata.TransactionsTopic)
		if version > 0 && (topic == nil || !topic.Internal || len(topic.Partitions) != 50 ||
			!topic.Settings.Compact || topic.Settings.UncleanElection) {
			t.Errorf("the topic of transactional ids was created as %+v", topic)
		}
	})
}

func TestGroupMembershipAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyJoinGroup, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).join(version)
	})
	everyVersion(t, api.KeySyncGroup, func(t *testing.T, b *broker, version int16) {
		joined := coordinated(t, b).join(5)
		if answer := b.sync(version, joined); answer.ErrorCode != 0 ||
			string(answer.MemberAssignment) != "all" {
			t.Errorf("sync: %+v", answer)
		}
	})
	everyVersion(t, api.KeyHeartbeat, func(t *testing.T, b *broker, version int16) {
		joined := coordinated(t, b).join(5)
		b.sync(3, joined)
		if code := b.heartbeat(version, joined); code != 0 {
			t.Errorf("heartbeat: error %d", code)
		}
		joined.Generation++
		if code := b.heartbeat(version, joined); code != 22 {
			t.Errorf("heartbeat of another generation: error %d", code)
		}
		joined.MemberID = "unknown"
		if code := b.heartbeat(version, joined); code != 25 {
			t.Errorf("heartbeat of an unknown member: error %d, want 25", code)
		}
	})
	everyVersion(t, api.KeyLeaveGroup, func(t *testing.T, b *broker, version int16) {
		joined := coordinated(t, b).join(5)
		for _, want := range []int16{0, 25} {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = "group", joined.MemberID
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: joined.MemberID}}
			answer := ask[*kmsg.LeaveGroupResponse](b, version, req)
			code := answer.ErrorCode
			if version >= 3 {
				code = answer.Members[0].ErrorCode
			}
			if code != want {
				t.Errorf("leave: %+v, want %d", answer, want)
			}
		}
	})
}

func (b *broker) commit(version int16, topic string, partition int32, offset int64,
	joined *kmsg.JoinGroupResponse) int16 {
	b.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = "group", -1, -1
	if joined != nil {
		req.Generation, req.MemberID = joined.Generation, joined.MemberID
	}
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	note := "note"
	part.Partition, part.Offset, part.LeaderEpoch, part.Metadata = partition, offset, 2, &note
	requested := kmsg.OffsetCommitRequestTopic{Topic: topic,
		Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}
	if known := b.image.Load().Topic(topic); known != nil {
		requested.TopicID = known.ID
	}
	req.Topics = append(req.Topics, requested)
	return ask[*kmsg.OffsetCommitResponse](b, version, req).Topics[0].Partitions[0].ErrorCode
}

// fetched returns the committed offsets in two partitions of tickets, or in all partitions, as
// text.
func (b *broker) fetched(version int16, all bool) (text string) {
	b.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	id := b.image.Load().Topic("tickets").ID
	req.Group = "group"
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "tickets", Partitions: []int32{0, 1}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{
			{Topic: "tickets", TopicID: id, Partitions: []int32{0, 1}},
		}}}
	if all {
		req.Topics, req.Groups[0].Topics = nil, nil
	}
	answer := ask[*kmsg.OffsetFetchResponse](b, version, req)
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			text += fmt.Sprint(p.Partition, ":", p.Offset, *p.Metadata, " ")
		}
	}
	for _, group := range answer.Groups {
		for _, topic := range group.Topics {
			if version >= 10 && topic.TopicID != id {
				b.t.Errorf("topic id %v", topic.TopicID)
			}
			for _, p := range topic.Partitions {
				text += fmt.Sprint(p.Partition, ":", p.Offset, *p.Metadata, " ")
			}
		}
	}
	return text
}

func TestOffsetsAreCommittedAndFetchedAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyOffsetCommit, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b)
		if code := b.commit(version, "tickets", 0, 7, nil); code != 0 {
			t.Errorf("commit: error %d", code)
		}
		if got := b.fetched(5, false); got != "0:7note 1:-1 " {
			t.Errorf("fetched %s", got)
		}
		if code := b.commit(version, "tickets", 9, 7, nil); code != 3 {
			t.Errorf("a partition that does not exist: error %d, want 3", code)
		}
		if code, want := b.commit(version, "none", 0, 7, nil),
			map[bool]int16{false: 3, true: 100}[version >= 10]; code != want {
			t.Errorf("a topic that does not exist: error %d", code)
		}
		joined := b.join(5)
		if code := b.commit(version, "tickets", 0, 8, joined); code != 27 {
			t.Errorf("before sync: error %d", code)
		}
		b.sync(3, joined)
		if code := b.commit(version, "tickets", 0, 8, joined); code != 0 {
			t.Errorf("of a member: error %d", code)
		}
		if code := b.commit(version, "tickets", 0, 9, nil); code != 25 {
			t.Errorf("of an unknown member: error %d, want 25", code)
		}
		joined.Generation--
		if code := b.commit(version, "tickets", 0, 9, joined); code != 22 {
			t.Errorf("of the previous generation: error %d, want 22", code)
		}
	})
	everyVersion(t, api.KeyOffsetFetch, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).commit(8, "tickets", 0, 7, nil)
		if got := b.fetched(version, false); got != "0:7note 1:-1 " {
			t.Errorf("fetched %s", got)
		}
		if got := b.fetched(version, true); version >= 2 && got != "0:7note " {
			t.Errorf("fetched all %s", got)
		}
	})
}

func TestGroupsAreDescribedListedAndDeletedAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyDescribeGroups, func(t *testing.T, b *broker, version int16) {
		joined := coordinated(t, b).join(5)
		b.sync(3, joined)
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{"group", "none"}, version >= 3
		groups := ask[*kmsg.DescribeGroupsResponse](b, version, req).Groups
		if got := groups[0].AuthorizedOperations; version >= 3 && got != kafkaGroupOperations {
			t.Errorf("authorized operations %d, want %d", got, kafkaGroupOperations)
		}
		if got := groups[0]; got.State != "Stable" || got.Protocol != "range" ||
			string(got.Members[0].MemberAssignment) != "all" {
			t.Errorf("group %+v", got)
		}
		want := int16(0)
		if version >= 6 {
			want = 69
		}
		if got := groups[1]; got.State != "Dead" || got.ErrorCode != want {
			t.Errorf("no group %+v", got)
		}
	})
	everyVersion(t, api.KeyListGroups, func(t *testing.T, b *broker, version int16) {
		joined := coordinated(t, b).join(5)
		b.sync(3, joined)
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter, req.TypesFilter = []string{"stable"}, []string{"Classic"}
		groups := ask[*kmsg.ListGroupsResponse](b, version, req).Groups
		if len(groups) != 1 || groups[0].Group != "group" || groups[0].ProtocolType != "consumer" {
			t.Errorf("groups %+v", groups)
		}
		req.StatesFilter = []string{"Empty"}
		if groups = ask[*kmsg.ListGroupsResponse](b, version, req).Groups; version >= 4 &&
			len(groups) != 0 {
			t.Errorf("empty groups %+v", groups)
		}
	})
	everyVersion(t, api.KeyDeleteGroups, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).commit(8, "tickets", 0, 7, nil)
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"group", "none"}
		groups := ask[*kmsg.DeleteGroupsResponse](b, version, req).Groups
		if groups[0].ErrorCode != 0 || groups[1].ErrorCode != 69 || b.fetched(5, true) != "" {
			t.Errorf("groups %+v, offsets %s", groups, b.fetched(5, true))
		}
		if message := groups[1].ErrorMessage; (message != nil) != (version >= 3) ||
			groups[0].ErrorMessage != nil {
			t.Errorf("message %v, want one from version 3 on", message)
		}
	})
	everyVersion(t, api.KeyOffsetDelete, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).commit(8, "tickets", 0, 7, nil)
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = "group"
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "tickets",
			Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		answer := ask[*kmsg.OffsetDeleteResponse](b, version, req)
		if answer.ErrorCode != 0 || answer.Topics[0].Partitions[0].ErrorCode != 0 ||
			b.fetched(5, true) != "" {
			t.Errorf("answer %+v, offsets %s", answer, b.fetched(5, true))
		}
	})
}

// TestProduceToTheOffsetsTopicIsRejected checks that clients cannot write to the offsets topic,
// because only coordinators may.
func TestProduceToTheOffsetsTopicIsRejected(t *testing.T) {
	b := coordinated(t, newBroker(t))
	for _, version := range []int16{3, 9, 12} {
		if answer := b.produce(version, coordinator.OffsetsTopic,
			batch(t, 0, "a")); answer.ErrorCode != 17 {
			t.Errorf("version %d: %+v", version, answer)
		}
	}
}

// TestQuirk9StaticMemberRejoins checks that a static member keeps its partitions and its generation
// when it joins again after a restart. Although it is the leader, it does not have to assign
// partitions again (KIP-345, KIP-814). Heartbeats from the old process are fenced.
func TestQuirk9StaticMemberRejoins(t *testing.T) {
	b := coordinated(t, newBroker(t))
	instance := "printer-1"
	static := func() *kmsg.JoinGroupResponse {
		req := joinRequest("")
		req.InstanceID = &instance
		return ask[*kmsg.JoinGroupResponse](b, 9, req)
	}
	first := static()
	if first.ErrorCode != 0 {
		t.Fatalf("join: %+v", first) // a static member may join without a member id
	}
	b.sync(5, first)
	second := static()
	if second.ErrorCode != 0 || second.MemberID == first.MemberID {
		t.Errorf("joined again: %+v, want another member id", second)
	}
	if second.Generation != first.Generation || second.LeaderID != second.MemberID {
		t.Errorf("joined again: %+v, want the leader of generation %d", second, first.Generation)
	}
	if !second.SkipAssignment || len(second.Members) != 1 {
		t.Errorf("joined again: %+v, want to skip the assignment", second)
	}
	if answer := b.sync(5, second); answer.ErrorCode != 0 ||
		string(answer.MemberAssignment) != "all" {
		t.Errorf("sync: %+v", answer)
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = "group", first.Generation,
		first.MemberID, &instance
	if code := ask[*kmsg.HeartbeatResponse](b, 4, req).ErrorCode; code != 82 {
		t.Errorf("heartbeat of the replaced process: error %d, want 82", code)
	}
}

// TestNotCoordinator checks that a broker that has lost the leadership of the offsets topic rejects
// group requests and returns the new coordinator.
func TestNotCoordinator(t *testing.T) {
	b := coordinated(t, newBroker(t))
	topic := b.image.Load().Topic(coordinator.OffsetsTopic)
	b.topics = slices.DeleteFunc(b.topics, func(t *metadata.Topic) bool { return t == topic })
	moved := *topic
	moved.Partitions = nil
	for i := range topic.Partitions {
		moved.Partitions = append(moved.Partitions, &metadata.Partition{
			Index: int32(i), Replicas: []int32{3, self}, Leader: 3, LeaderEpoch: 7, ISR: []int32{3},
		})
	}
	b.topics = append(b.topics, &moved)
	must(t, b.apply())
	if code := b.commit(8, "tickets", 0, 7, nil); code != 16 {
		t.Errorf("commit: error %d", code)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "group"
	if answer := ask[*kmsg.FindCoordinatorResponse](b, 2, find); answer.NodeID != 3 {
		t.Errorf("coordinator %+v", answer)
	}
}
