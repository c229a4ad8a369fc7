package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

// consumerGroups returns consumer protocol groups with their lag. kadm.Lag describes only groups of
// the classic protocol.
func consumerGroups(ctx context.Context, admin *kadm.Client,
	described []kadm.DescribedConsumerGroup) ([]Group, error) {
	names, topics := make([]string, len(described)), map[string]bool{}
	for i := range described {
		names[i] = described[i].Group
		for topic := range described[i].AssignedPartitions() {
			topics[topic] = true
		}
		for _, topic := range described[i].SubscribedTopics() {
			topics[topic] = true
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	committed := admin.FetchManyOffsets(ctx, names...)
	for topic := range committed.CommittedPartitions() {
		topics[topic] = true
	}
	bounds, err := logBounds(ctx, admin, slices.Collect(maps.Keys(topics)))
	if err != nil {
		return nil, err
	}
	groups := make([]Group, len(described))
	for i, group := range described {
		offsets := committed[group.Group]
		lag := kadm.DescribedGroupLag{Group: group.Group, State: group.State,
			Coordinator: group.Coordinator, DescribeErr: group.Err, FetchErr: offsets.Err}
		lag.Lag = kadm.CalculateGroupLagWithStartOffsets(kadm.DescribedGroup{},
			withAssigned(offsets.Fetched, group), bounds.Starts, bounds.Ends)
		groups[i] = newGroup(lag)
		groups[i].Members = len(group.Members)
		groups[i].addOwners(group.Members)
	}
	return groups, nil
}

// logBounds returns the start and end offsets of the topics' partitions. It omits topics that do
// not exist and partitions whose broker did not respond, because their lag is unknown.
func logBounds(ctx context.Context, admin *kadm.Client,
	topics []string) (bounds kafkaclient.Bounds, err error) {
	if len(topics) == 0 {
		return bounds, nil
	}
	bounds, err = kafkaclient.Ask{}.List(ctx, admin, topics...)
	if _, partial := errors.AsType[*kadm.ShardErrors](err); err != nil && !partial {
		return bounds, err
	}
	for _, listed := range []kadm.ListedOffsets{bounds.Starts, bounds.Ends} {
		for _, partitions := range listed {
			delete(partitions, -1) // the entry for a topic that does not exist
		}
	}
	return bounds, nil
}

// withAssigned returns the committed offsets, and adds the partitions without a committed offset
// that are assigned to members, with offset -1.
func withAssigned(committed kadm.OffsetResponses,
	group kadm.DescribedConsumerGroup) kadm.OffsetResponses {
	all := kadm.OffsetResponses{}
	add := func(offsetResponse kadm.OffsetResponse) {
		if all[offsetResponse.Topic] == nil {
			all[offsetResponse.Topic] = map[int32]kadm.OffsetResponse{}
		}
		all[offsetResponse.Topic][offsetResponse.Partition] = offsetResponse
	}
	group.AssignedPartitions().Each(func(topic string, partition int32) {
		add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: topic, Partition: partition, At: -1}})
	})
	committed.Each(add)
	return all
}

// addOwners sets the member that consumes each partition.
func (g *Group) addOwners(members []kadm.ConsumerGroupMember) {
	for i := range g.Partitions {
		p := &g.Partitions[i]
		index := slices.IndexFunc(members, func(m kadm.ConsumerGroupMember) bool {
			return m.Assignment.Lookup(p.Topic, p.Partition)
		})
		if index >= 0 {
			p.Member, p.Host = members[index].ClientID, members[index].ClientHost
		}
	}
}
