package handler

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
)

func TestReassignmentsAtEveryVersion(t *testing.T) {
	everyVersion(t, api.KeyAlterReassignments, func(t *testing.T, b *broker, version int16) {
		b.topic("tickets", nil)
		mayChange := true
		reassign := func(topic string, replicas []int32) int16 {
			req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			req.TimeoutMillis, req.AllowReplicationFactorChange = 1000, mayChange
			req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
				Topic: topic,
				Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{
					{Replicas: replicas},
				},
			}}
			return ask[*kmsg.AlterPartitionAssignmentsResponse](b, version,
				req).Topics[0].Partitions[0].ErrorCode
		}
		list := func(
			topics ...kmsg.ListPartitionReassignmentsRequestTopic,
		) []kmsg.ListPartitionReassignmentsResponseTopic {
			req := kmsg.NewPtrListPartitionReassignmentsRequest()
			req.Topics = topics
			return ask[*kmsg.ListPartitionReassignmentsResponse](b, 0, req).Topics
		}
		got := []int16{
			reassign("none", []int32{3}), reassign("tickets", nil), reassign("tickets", []int32{7}),
			reassign("tickets", []int32{self, self}), reassign("tickets", []int32{}),
		}
		if !slices.Equal(got, []int16{3, 85, 39, 39, 39}) || len(list()) != 0 {
			t.Errorf("error codes %v", got)
		}
		if mayChange = false; version >= 1 {
			if code := reassign("tickets", []int32{self, 3}); code != 38 {
				t.Errorf("a change of the number that the request forbids: error %d", code)
			}
		}
		if code := reassign("tickets", []int32{3}); code != 0 {
			t.Errorf("error %d", code)
		}
		listed := list()
		if len(listed) != 1 || !slices.Equal(listed[0].Partitions[0].AddingReplicas, []int32{3}) ||
			!slices.Equal(listed[0].Partitions[0].RemovingReplicas, []int32{self}) {
			t.Errorf("reassignments %+v", listed)
		}
		if other := list(kmsg.ListPartitionReassignmentsRequestTopic{Topic: "other",
			Partitions: []int32{0}}); len(other) != 0 {
			t.Errorf("reassignments of another topic: %+v", other)
		}
	})
}
