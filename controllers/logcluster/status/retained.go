package status

import (
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// retainedTopicsMax is the maximum number of deleted topics in a status.
const retainedTopicsMax = 20

// describeRetained sets the part of the status that describes deleted topics with retained records.
func describeRetained(s *facts.Facts, status *v1alpha1.LogClusterStatus) {
	topics := map[v1alpha1.GivenUp]*v1alpha1.RetainedTopic{}
	status.RetainedPartitions, status.RetainedTopics = 0, nil
	for _, p := range s.Orphaned() {
		a := p.Assignment
		status.RetainedPartitions++
		named := v1alpha1.GivenUp{Topic: p.Key.Topic, ID: a.Tag}
		if topics[named] == nil {
			topics[named] = &v1alpha1.RetainedTopic{Topic: p.Key.Topic, ID: a.Tag}
		}
		topics[named].Partitions++
		if a.Reclaim == partitionset.Remove {
			topics[named].Removing = true
			topics[named].WaitsFor = append(topics[named].WaitsFor, replicasOf(p.Entry)...)
		}
	}
	for _, topic := range topics {
		if !topic.Removing {
			topic.Command = v1alpha1.RemoveRetainedCommand(s.Cluster, topic.Topic)
		}
		slices.Sort(topic.WaitsFor)
		topic.WaitsFor = slices.Compact(topic.WaitsFor)
		status.RetainedTopics = append(status.RetainedTopics, *topic)
	}
	slices.SortFunc(status.RetainedTopics, func(a, b v1alpha1.RetainedTopic) int {
		if by := strings.Compare(a.Topic, b.Topic); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
	if len(status.RetainedTopics) > retainedTopicsMax {
		status.RetainedTopics = status.RetainedTopics[:retainedTopicsMax]
	}
}

// replicasOf returns the brokers that have not reported the removal of a partition's records.
func replicasOf(entry partitionset.Entry) []int32 {
	if entry.State == nil {
		return nil
	}
	return entry.State.Replicas
}
