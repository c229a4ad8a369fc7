package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// ChangeISR implements metadata.Store. It makes the changes of each PartitionSet in one
// compare-and-swap on the set's resourceVersion. Each change is decided on the basis of the version
// of the set that the write replaces, and is made only if the partition's leader epoch and ISR are
// as the caller assumes.
//
// The members' broker epochs are compared with the Leases in the last image, which may be outdated.
// A member that has just failed stays in the ISR until the operator detects the failure and removes
// the member. Until then the high watermark does not advance, so no record that the member lacks is
// acknowledged.
func (s *Store) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.times.changeISR)
	defer cancel()
	directory := s.directory.Load()
	sets := map[string]*isrBatch{}
	for i, change := range changes {
		place, ok := directory.place(change.Topic, change.Partition)
		if !ok {
			settled(i, 0, fmt.Errorf("%w: partition %d of topic %s is not in the metadata image",
				metadata.ErrISRConflict, change.Partition, change.Topic))
			continue
		}
		batch := sets[place.set]
		if batch == nil {
			batch = &isrBatch{}
			sets[place.set] = batch
		}
		batch.urgent = batch.urgent || directory.isUrgent(change)
		batch.indexes = append(batch.indexes, i)
		partitionEpoch := &atomic.Int64{}
		batch.partitionEpochs = append(batch.partitionEpochs, partitionEpoch)
		batch.changes = append(batch.changes, s.changeISR(place, change, partitionEpoch))
	}
	var writers sync.WaitGroup
	defer writers.Wait()
	for set, batch := range sets {
		writers.Go(func() {
			errs := s.writer.ChangeStatuses(ctx, set, batch.urgent, batch.changes)
			for index, i := range batch.indexes {
				if err := isrError(errs[index]); err != nil {
					settled(i, 0, err) // the change was decided, but may not have been written
				} else {
					settled(i, batch.partitionEpochs[index].Load(), nil)
				}
			}
		})
	}
}

// isrBatch contains the ISR changes for one PartitionSet.
type isrBatch struct {
	urgent  bool
	indexes []int // indexes of the changes in the argument of ChangeISR
	changes []commit.Change
	// partitionEpochs contains the partition epochs after the changes. They are atomic because a
	// change may still be decided after ChangeISR has returned, if the change is not stored.
	partitionEpochs []*atomic.Int64
}

// isUrgent reports whether producers with acks=all wait for an ISR change, because it removes a
// replica, or because the ISR is below minInSyncReplicas.
func (d *directory) isUrgent(change metadata.ISRChange) bool {
	if len(change.To) < len(change.From) {
		return true
	}
	topic := d.image.TopicByID(change.Topic)
	return topic != nil && len(change.From) < topic.Settings.MinInSyncReplicas
}

// errRepeated means that an ISR change may have been made although its write has conflicted.
var errRepeated = errors.New("the entry has changed since the first attempt: a proxy may have " +
	"repeated the request, and the change may have been made")

// changeISR returns a commit.Change that makes an ISR change, and stores the resulting partition
// epoch in partitionEpoch. It is decided anew for each version of the set.
//
// A conflict proves that the conflicting request wrote nothing. But a proxy in front of the API
// server may have sent the request twice, so that the second request conflicts with the first. So
// if the change adds a replica, and the entry has changed since the change was first decided, the
// outcome is unknown. Two other cases need no such check. If the entry contains the proposed ISR,
// partitionset confirms it. If the change only removes replicas and was made, the leader waits for
// more replicas than necessary, which is safe.
func (s *Store) changeISR(location place, change metadata.ISRChange,
	partitionEpoch *atomic.Int64) commit.Change {
	decided := int64(-1) // value of the entry's change counter when the change was first accepted
	return func(set *partitionset.Set) error {
		if !location.assigned(set) {
			return fmt.Errorf("%w: PartitionSet %s does not contain partition %s of topic %s",
				metadata.ErrISRConflict, location.set, location.key, change.Topic)
		}
		before, _ := set.Get(location.key)
		epoch, err := set.ChangeISR(location.key, change, s.brokerStates())
		partitionEpoch.Store(epoch)
		switch {
		case before.State == nil:
		case err == nil && decided < 0:
			decided = before.State.Changes
		case err != nil && decided >= 0 && decided != before.State.Changes && change.Adds():
			return fmt.Errorf("partition %s: %w", location.key, errRepeated)
		}
		return err
	}
}

// isrError converts the result of a change to the errors of metadata.Store.ChangeISR. Only an error
// that proves that nothing was written may become ErrISRConflict.
func isrError(err error) error {
	switch {
	case err == nil, errors.Is(err, metadata.ErrISRConflict):
		return err
	case errors.Is(err, commit.ErrConflict), errors.Is(err, commit.ErrNotFound),
		apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrISRConflict, err)
	}
	return fmt.Errorf("change the ISR: %w", err)
}

// brokerStates returns the last image's brokers in the form that package placement uses. The map
// must not be modified.
func (s *Store) brokerStates() map[int32]placement.BrokerState {
	if states := s.states.Load(); states != nil {
		return *states
	}
	return nil
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer. It writes the announcement into the Lease
// at once; every later renewal repeats it.
func (s *Store) AnnounceShutdown(ctx context.Context) error {
	keeper := s.keeper.Load()
	if keeper == nil {
		return errors.New("announce the shutdown: this broker is not registered")
	}
	return keeper.requestLeaving(ctx)
}
