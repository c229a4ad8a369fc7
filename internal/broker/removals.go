package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// removals deletes the retained records of deleted topics after an administrator has released them
// for deletion. It reports each deletion to the metadata store
// (docs/internals/format/partition-sets.md describes the entry of such a partition).
//
// A deletion is durable before it is reported. After a restart it may be repeated, because the
// metadata image names this broker until the report is stored. Only the goroutine run removes
// records and reports.
type removals struct {
	broker  *Broker
	changed chan struct{} // buffer of one; a token means that there may be partitions to remove
	// removed contains the partitions that this process has removed. Only run accesses it.
	removed map[removal]bool
}

// removal identifies a partition of a deleted topic by the tag of the topic id and the partition
// index.
type removal struct {
	index int32
	tag   string
}

func newRemovals(b *Broker) *removals {
	return &removals{broker: b, changed: make(chan struct{}, 1), removed: map[removal]bool{}}
}

// update wakes run if the applied metadata image contains partitions to be removed.
func (r *removals) update(image *metadata.Image) {
	if len(removing(image)) == 0 {
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// removing returns the partitions that are being removed according to the metadata image.
func removing(image *metadata.Image) (all []metadata.RetainedPartition) {
	for _, p := range image.Retained {
		if p.Removing {
			all = append(all, p)
		}
	}
	return all
}

// run removes and reports partitions until ctx ends. After a failure it retries every
// retryInterval.
func (r *removals) run(ctx context.Context) {
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	for failures := (outage.State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-retry.C:
		}
		err := r.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures.Succeed()
			continue
		}
		retry.Reset(retryInterval)
		if failures.Fail(time.Now()) {
			r.broker.logger.Warn("failed to remove retained records", "error", outage.Brief(err))
		}
	}
}

// step removes the records of all partitions that are being removed, and reports those that the
// metadata image assigns to this broker. A broker without an assigned replica may still have
// records of a replica that was moved away.
func (r *removals) step(ctx context.Context) error {
	b := r.broker
	var pending, mine []metadata.RetainedPartition
	for _, p := range removing(b.image()) {
		assigned := slices.Contains(p.Replicas, b.opts.NodeID)
		if assigned {
			mine = append(mine, p)
		}
		if assigned || !r.removed[removal{p.Partition, p.Tag}] {
			pending = append(pending, p)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	wanted := map[removal]bool{}
	for _, p := range pending {
		wanted[removal{p.Partition, p.Tag}] = true
	}
	removed, err := b.store.RemoveRetained(func(id logstore.PartitionID, topic logstore.TopicID) bool {
		return wanted[removal{id.Index, metadata.ID(topic).Tag()}]
	})
	for _, log := range removed {
		b.logger.Info("removing records of a deleted topic", "partition", log.ID, "topicID", log.Topic,
			"released", log.Released)
	}
	if err != nil {
		return fmt.Errorf("remove retained records: %w", err)
	}
	for removal := range wanted {
		r.removed[removal] = true
	}
	recorder, ok := b.opts.Metadata.(metadata.RemovalRecorder)
	if !ok || len(mine) == 0 {
		return nil
	}
	return recorder.RecordRemoved(ctx, b.opts.NodeID, mine)
}
