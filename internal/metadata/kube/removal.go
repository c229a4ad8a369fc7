package kube

import (
	"context"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// RecordRemoved implements metadata.RemovalRecorder, with one write for each PartitionSet.
func (s *Store) RecordRemoved(ctx context.Context, broker int32,
	removed []metadata.RetainedPartition) error {
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	if all.sets.count == 0 {
		return nil
	}
	bySet := map[int32][]metadata.RetainedPartition{}
	for _, p := range removed {
		number := partitionset.Number(partitionset.Key{Topic: p.Topic, Index: p.Partition},
			all.sets.count)
		bySet[number] = append(bySet[number], p)
	}
	var faults []error
	for number, retainedPartitions := range bySet {
		name := v1alpha1.PartitionSetName(all.name, number)
		if err := s.writer.ChangeStatus(ctx, name, func(set *partitionset.Set) error {
			for _, p := range retainedPartitions {
				set.RemovedFrom(partitionset.Key{Topic: p.Topic, Index: p.Partition}, p.Tag, broker)
			}
			return nil
		}); err != nil {
			faults = append(faults, fmt.Errorf("record the removal of %d partitions in PartitionSet "+
				"%s: %w", len(retainedPartitions), name, err))
		}
	}
	return errors.Join(faults...)
}
