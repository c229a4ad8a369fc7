package local

import (
	"context"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// RecordRemoved implements metadata.RemovalRecorder.
func (s *Store) RecordRemoved(ctx context.Context, broker int32,
	removed []metadata.RetainedPartition) error {
	return s.request(ctx, func() error {
		return s.change(func(d *document) error {
			for _, p := range removed {
				d.set.RemovedFrom(partitionset.Key{Topic: p.Topic, Index: p.Partition}, p.Tag, broker)
			}
			d.finishRemovals()
			return nil
		})
	})
}

// giveUp begins to remove the retained records that the LogCluster's manifest gives up (annotation
// heartwood.dev/remove-retained). It keeps records of topics that exist.
func (d *document) giveUp(cluster *v1alpha1.LogCluster) {
	if cluster == nil {
		return
	}
	for _, g := range cluster.GivenUp() {
		if _, exists := d.find(g.Topic); exists {
			continue
		}
		for _, key := range d.set.Keys() {
			entry, _ := d.set.Get(key)
			if key.Topic != g.Topic || !isRetained(entry) || entry.Assignment.Tag != g.ID {
				continue
			}
			given := *entry.Assignment
			given.Reclaim = partitionset.Remove
			d.assignPartition(key, given)
		}
	}
	d.finishRemovals()
}

// finishRemovals removes the partitions whose records have been removed by all running brokers.
func (d *document) finishRemovals() {
	for _, key := range d.set.Keys() {
		entry, _ := d.set.Get(key)
		if !isRemoving(entry) {
			continue
		}
		if entry.State == nil || !slices.ContainsFunc(entry.State.Replicas,
			func(id int32) bool { return int(id) < d.running() }) {
			d.removePartition(key)
		}
	}
}

// isRemoving reports whether a partition's records are being removed.
func isRemoving(entry partitionset.Entry) bool {
	return entry.Assignment != nil && entry.Assignment.Reclaim == partitionset.Remove
}

// checkRemovals fails if the topic would get a partition from which an earlier topic's records are
// still being removed. A broker that still has such records would use them for the new partition.
func (d *document) checkRemovals(t topic, first int) error {
	for index := int32(first); index < t.Spec.Partitions; index++ {
		if entry, _ := d.set.Get(t.key(index)); isRemoving(entry) {
			return fmt.Errorf("%w: the records of an earlier topic %s are being removed: try again",
				metadata.ErrUnavailable, t.kafkaName())
		}
	}
	return nil
}
