//go:build e2e

package e2e

import (
	"context"
	"errors"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// partitions returns a topic's partitions with their target assignments, by index. It omits
// partitions that are not assigned yet or have no state yet.
func (e *environment) partitions(ctx context.Context,
	topic string) (map[int32]placement.Partition, error) {
	all, err := e.allPartitions(ctx)
	if err != nil {
		return nil, err
	}
	partitions := map[int32]placement.Partition{}
	for key, p := range all {
		if key.Topic == topic {
			partitions[key.Index] = p
		}
	}
	return partitions, nil
}

// allPartitions is like partitions, for all topics.
func (e *environment) allPartitions(
	ctx context.Context) (map[partitionset.Key]placement.Partition, error) {
	var sets v1alpha1.PartitionSetList
	if err := e.List(ctx, &sets); err != nil {
		return nil, err
	}
	all := map[partitionset.Key]placement.Partition{}
	for i := range sets.Items {
		set, faults := partitionset.Decode(&sets.Items[i], nil)
		if err := errors.Join(faults...); err != nil {
			return nil, err
		}
		for key, entry := range set.All() {
			if entry.Assignment != nil && entry.State != nil {
				all[key] = entry.Placed()
			}
		}
	}
	return all, nil
}

// partition returns one partition, which must exist.
func (e *environment) partition(t *testing.T, topic string, index int32) placement.Partition {
	t.Helper()
	all, err := e.partitions(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := all[index]
	if !ok {
		t.Fatalf("partition %s-%d has no state", topic, index)
	}
	return p
}
