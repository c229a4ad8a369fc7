package handler

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
)

// consume sends a ConsumerGroupHeartbeat of a member of group "group". With epoch 0, the member
// joins and subscribes to topic tickets.
func (b *broker) consume(version int16, member string, epoch int32,
	change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	b.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "group", member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, []string{"tickets"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if change != nil {
		change(req)
	}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](b, version, req)
}

func TestConsumerGroupHeartbeatAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyConsumerHeartbeat, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b)
		answer := b.consume(version, "a", 0, nil)
		if answer.ErrorCode != 0 || len(answer.Assignment.Topics) != 1 {
			t.Fatalf("joined: %+v, want one topic", answer)
		}
		if *answer.MemberID != "a" || answer.MemberEpoch != 1 {
			t.Fatalf("joined as %s in epoch %d, want a in 1", *answer.MemberID,
				answer.MemberEpoch)
		}
		if answer.HeartbeatIntervalMillis != 5000 {
			t.Fatalf("heartbeat interval %d, want 5000", answer.HeartbeatIntervalMillis)
		}
		assigned := answer.Assignment.Topics[0]
		if !slices.Equal(assigned.Partitions, []int32{0, 1, 2, 3}) {
			t.Fatalf("assigned partitions %v, want all four", assigned.Partitions)
		}
		if want := b.image.Load().Topic("tickets").ID; assigned.TopicID != want {
			t.Fatalf("assigned topic %v, want %v", assigned.TopicID, want)
		}
		if answer = b.consume(version, "a", 1, nil); answer.ErrorCode != 0 ||
			answer.MemberEpoch != 1 || answer.Assignment != nil {
			t.Errorf("heartbeat: %+v", answer)
		}
		text := func(s string) *string { return &s }
		for want, change := range map[int16]func(*kmsg.ConsumerGroupHeartbeatRequest){
			25:  func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "b" },
			42:  func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" },
			69:  func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "none" },
			110: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = 7 },
			112: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = text("sticky") },
			128: func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = text("(") },
		} {
			if version == 0 && want == 128 {
				continue // version 0 has no regular expressions
			}
			if answer := b.consume(version, "a", 1, change); answer.ErrorCode != want ||
				answer.ErrorMessage == nil {
				t.Errorf("want error %d: %+v", want, answer)
			}
		}
		// In version 0 the coordinator can choose the member id.
		answer = b.consume(version, "", 0, nil)
		if version == 0 && (answer.ErrorCode != 0 || *answer.MemberID == "") || version > 0 &&
			answer.ErrorCode != 42 {
			t.Errorf("without an id: %+v", answer)
		}
		if answer = b.consume(version, "a", -1, nil); answer.ErrorCode != 0 ||
			answer.MemberEpoch != -1 {
			t.Errorf("left: %+v", answer)
		}
	})
}

func TestConsumerGroupDescribeAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyConsumerDescribe, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).commit(8, "tickets", 0, 7, nil) // creates a classic group without members
		describe := func() []kmsg.ConsumerGroupDescribeResponseGroup {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups, req.IncludeAuthorizedOperations = []string{"group", "none"}, true
			return ask[*kmsg.ConsumerGroupDescribeResponse](b, version, req).Groups
		}
		for _, group := range describe() {
			if group.ErrorCode != 69 || group.ErrorMessage == nil {
				t.Errorf("not a consumer group: %+v, want error 69", group)
			}
		}
		b.consume(1, "a", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			instance, rack, expression := "i", "r", "tick.*"
			r.InstanceID, r.RackID, r.SubscribedTopicRegex = &instance, &rack, &expression
		})
		group := describe()[0]
		if group.ErrorCode != 0 || group.State != "Stable" {
			t.Fatalf("error %d, state %s, want Stable", group.ErrorCode, group.State)
		}
		if group.Epoch != 1 || group.AssignmentEpoch != 1 {
			t.Fatalf("epochs %d and %d, want 1", group.Epoch, group.AssignmentEpoch)
		}
		if group.AssignorName != "uniform" || len(group.Members) != 1 {
			t.Fatalf("group %+v, want one member, assigned by uniform", group)
		}
		if group.AuthorizedOperations != kafkaGroupOperations {
			t.Fatalf("operations %d, want %d", group.AuthorizedOperations, kafkaGroupOperations)
		}
		m, kind := &group.Members[0], int8(-1)
		if version >= 1 {
			kind = 1
		}
		if m.MemberID != "a" || m.MemberEpoch != 1 {
			t.Errorf("member %s in epoch %d, want a in 1", m.MemberID, m.MemberEpoch)
		}
		if *m.InstanceID != "i" || *m.RackID != "r" {
			t.Errorf("instance %s in rack %s, want i in r", *m.InstanceID, *m.RackID)
		}
		if !slices.Equal(m.SubscribedTopics, []string{"tickets"}) {
			t.Errorf("subscribed to %q, want tickets", m.SubscribedTopics)
		}
		if *m.SubscribedTopicRegex != "tick.*" {
			t.Errorf("subscribed to %q, want tick.*", *m.SubscribedTopicRegex)
		}
		if m.MemberType != kind || m.ClientHost == "" {
			t.Errorf("type %d, host %q, want type %d and a host", m.MemberType, m.ClientHost,
				kind)
		}
		for _, assigned := range []kmsg.Assignment{m.Assignment, m.TargetAssignment} {
			if len(assigned.TopicPartitions) != 1 || assigned.TopicPartitions[0].Topic != "tickets" ||
				len(assigned.TopicPartitions[0].Partitions) != 4 {
				t.Errorf("assignment %+v", assigned)
			}
		}
	})
}

// TestClassicAPIsOfConsumerGroups checks the responses to requests of the classic protocol, in
// every version, for a group that uses the consumer protocol.
func TestClassicAPIsOfConsumerGroups(t *testing.T) {
	everyVersion(t, api.KeyListGroups, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).consume(1, "a", 0, nil)
		for filter, want := range map[string]int{"consumer": 1, "classic": 0} {
			req := kmsg.NewPtrListGroupsRequest()
			req.TypesFilter = []string{filter}
			groups := ask[*kmsg.ListGroupsResponse](b, version, req).Groups
			if version < 5 {
				want = 1
			}
			if len(groups) != want || want == 1 &&
				(groups[0].ProtocolType != "consumer" || version >= 4 &&
					groups[0].GroupState != "Stable" ||
					version >= 5 && groups[0].GroupType != "consumer") {
				t.Errorf("type %s: %+v", filter, groups)
			}
		}
	})
	everyVersion(t, api.KeyDescribeGroups, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).consume(1, "a", 0, nil)
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{"group"}
		want := map[bool]int16{true: 69}[version >= 6]
		if got := ask[*kmsg.DescribeGroupsResponse](b, version,
			req).Groups[0]; got.State != "Dead" || got.ErrorCode != want {
			t.Errorf("group %+v", got)
		}
	})
	everyVersion(t, api.KeyJoinGroup, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).consume(1, "a", 0, nil)
		if answer := ask[*kmsg.JoinGroupResponse](b, version,
			joinRequest("")); answer.ErrorCode != 23 {
			t.Errorf("join: %+v", answer)
		}
	})
	everyVersion(t, api.KeyOffsetCommit, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).consume(1, "a", 0, nil)
		member := &kmsg.JoinGroupResponse{MemberID: "a", Generation: 1}
		if code, want := b.commit(version, "tickets", 0, 7, member),
			map[bool]int16{true: 35}[version < 9]; code != want {
			t.Errorf("commit: error %d, want %d", code, want)
		}
		member.Generation = 2
		if code, want := b.commit(version, "tickets", 0, 7, member),
			map[bool]int16{true: 35, false: 113}[version < 9]; code != want {
			t.Errorf("commit in another epoch: error %d, want %d", code, want)
		}
		if code := b.commit(version, "tickets", 0, 7, nil); code != 25 {
			t.Errorf("commit by an unknown member: error %d, want 25", code)
		}
	})
	everyVersion(t, api.KeyOffsetFetch, func(t *testing.T, b *broker, version int16) {
		coordinated(t, b).consume(1, "a", 0, nil)
		if code := b.commit(9, "tickets", 0, 7,
			&kmsg.JoinGroupResponse{MemberID: "a", Generation: 1}); code != 0 {
			t.Fatalf("commit: error %d", code)
		}
		if got := b.fetched(version, false); got != "0:7note 1:-1 " {
			t.Errorf("fetched %s", got)
		}
		if version < 9 {
			return
		}
		for _, c := range []struct {
			member string
			epoch  int32
			want   int16
		}{{"a", 1, 0}, {"a", 2, 113}, {"b", 1, 25}} {
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberID: &c.member,
				MemberEpoch: c.epoch}}
			if got := ask[*kmsg.OffsetFetchResponse](b, version,
				req).Groups[0]; got.ErrorCode != c.want {
				t.Errorf("%s: %+v", fmt.Sprint(c), got)
			}
		}
	})
}
