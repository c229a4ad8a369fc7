package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/partitionset"
	"heartwood.dev/heartwood/internal/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// ChangeISR implements metadata.Store. The changes of each PartitionSet are one compare-and-swap on
// its resourceVersion. Each change is decided on the version of the set that the write replaces: it
// is made only if the leader epoch and the ISR of the partition are what the caller assumes.
//
// The broker epochs of the members are checked against the Leases of the last image, which may be
// outdated. A member that has just failed stays in the ISR until the operator detects the failure
// and removes the member. Until then the high watermark does not advance, so no record is
// acknowledged that the member lacks.
func (s *Store) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled func(change int, err error)) {
	ctx, cancel := context.WithTimeout(ctx, metadata.ChangeISRTimeout)
	defer cancel()
	directory := s.directory.Load()
	sets := map[string]*isrBatch{}
	for i, change := range changes {
		place, ok := directory.place(change.Topic, change.Partition)
		if !ok {
			settled(i, fmt.Errorf("%w: partition %d of topic %s is not in the metadata image",
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
		batch.changes = append(batch.changes, s.changeISR(place, change))
	}
	var writers sync.WaitGroup
	defer writers.Wait()
	for set, batch := range sets {
		writers.Go(func() {
			errs := s.writer.ChangeStatuses(ctx, set, batch.urgent, batch.changes)
			for at, i := range batch.indexes {
				settled(i, isrError(errs[at]))
			}
		})
	}
}

// isrBatch is the ISR changes of one PartitionSet.
type isrBatch struct {
	urgent  bool
	indexes []int // of the changes, in the argument of ChangeISR
	changes []commit.Change
}

// isUrgent reports whether producers with acks=all wait for an ISR change: it removes a replica, or
// the ISR is below minInSyncReplicas.
func (d *directory) isUrgent(change metadata.ISRChange) bool {
	if len(change.To) < len(change.From) {
		return true
	}
	topic := d.image.TopicByID(change.Topic)
	return topic != nil && len(change.From) < topic.Settings.MinInSyncReplicas
}

func (s *Store) changeISR(at place, change metadata.ISRChange) commit.Change {
	return func(set *partitionset.Set) error {
		if !at.assigned(set) {
			return fmt.Errorf("%w: PartitionSet %s does not contain partition %s of topic %s",
				metadata.ErrISRConflict, at.set, at.key, change.Topic)
		}
		return set.ChangeISR(at.key, change, s.brokerStates())
	}
}

// isrError maps the result of a change to the errors of metadata.Store.ChangeISR. Only an error
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

// brokerStates returns the brokers of the last image in the form that package placement uses. The
// map must not be changed.
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
