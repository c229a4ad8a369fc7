package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

const (
	// isrAttempts is the number of attempts to write an ISR change while other writers change other
	// parts of the Partition, such as its condition or spec.
	isrAttempts = 4
	// concurrentISRChanges is how many Partitions are written at the same time.
	concurrentISRChanges = 8
)

// ChangeISR implements metadata.Store with one write per Partition.
func (s *Store) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled func(change int, err error)) {
	metadata.ChangeISREach(concurrentISRChanges, s.changeISR)(ctx, changes,
		func(change int, err error) {
			settled(change, err)
			if len(changes) > concurrentISRChanges {
				s.writes.throttle(ctx)
			}
		})
}

// changeISR changes an ISR by compare-and-swap on the Partition's resourceVersion. It checks the
// leader epoch and the ISR of the proposal against the version of the Partition that the write
// replaces. So the write succeeds only if they are what the caller assumes.
//
// It checks the broker epochs of the members against the Leases of the last image, which may be
// outdated. A member that has just failed stays in the ISR until the operator detects the failure
// and removes the member. Until then the high watermark does not advance, so no record is
// acknowledged that the member lacks.
func (s *Store) changeISR(ctx context.Context, change metadata.ISRChange) error {
	watched, err := s.partitionOf(ctx, change)
	if err != nil {
		return err
	}
	defer s.writes.lock(watched.Name)()
	partition := s.writes.latest(watched)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for attempt := range isrAttempts {
		changed, refused := applyProposal(partition, change, s.brokerStates())
		if refused == nil && removesFencedOnly(partition, changed, s.brokerStates()) {
			return fmt.Errorf("%w: the replicas to remove from partition %s are fenced",
				metadata.ErrISRConflict, partition.Name)
		}
		if refused != nil && attempt > 0 {
			return refused
		}
		if refused == nil {
			err := s.writes.update(ctx, s.client, changed)
			switch {
			case err == nil:
				return nil
			case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
				return errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict,
					partition.Name), err)
			case !apierrors.IsConflict(err):
				return fmt.Errorf("change the ISR of partition %s: %w", partition.Name,
					err)
			}
		}
		// The caller may have the result of its last change, which the watch has not delivered yet.
		// So the next attempt uses the API server's version. If this read fails, nothing has been
		// changed.
		live := &v1alpha1.Partition{}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(partition), live); err != nil {
			return errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict,
				partition.Name), err)
		}
		partition = live
	}
	return fmt.Errorf("%w: partition %s: %d attempts ended in conflicts",
		metadata.ErrISRConflict, partition.Name, isrAttempts)
}

// partitionOf returns the cached Partition of a change. It finds the Partition by name and does not
// iterate over all Partitions, because thousands of Partitions are changed when a broker fails.
func (s *Store) partitionOf(ctx context.Context, change metadata.ISRChange) (*v1alpha1.Partition,
	error) {
	names := s.names.Load()
	if names == nil {
		return nil, fmt.Errorf("%w: no metadata image has been built yet", metadata.ErrISRConflict)
	}
	partition := &v1alpha1.Partition{}
	key := client.ObjectKey{Namespace: s.opts.Namespace,
		Name: v1alpha1.PartitionName((*names)[change.Topic], change.Partition)}
	if err := s.cache.Get(ctx, key, partition); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: partition %d of topic %s", metadata.ErrISRConflict,
			change.Partition, change.Topic), err)
	}
	return partition, nil
}

// applyProposal returns a copy of a Partition in which an ISR change is made. If placement rejects
// the change, the error wraps ErrISRConflict.
func applyProposal(p *v1alpha1.Partition, change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) (*v1alpha1.Partition, error) {
	placed, err := placement.ChangeISR(metadata.PlacedPartition(p), change.Proposal(), brokers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict, p.Name),
			err)
	}
	after := p.DeepCopy()
	metadata.RecordPlaced(&after.Status, placed)
	// Only the operator changes replicas and assignments.
	after.Status.Replicas, after.Status.Assignments = p.Status.Replicas, p.Status.Assignments
	if len(change.To) > len(change.From) {
		// The ISR grows. A follower has caught up, so the leader must be serving.
		metadata.RecordServing(after, change.LeaderEpoch)
	}
	return after, nil
}

// removesFencedOnly reports whether a change only removes fenced members. Such a change need not be
// written: fenced members have no effect on the high watermark any more (ADR 0213), and the next
// write of the Partition removes them. When a broker returns just after it was killed, this saves
// one write for each partition that the broker follows.
func removesFencedOnly(before, after *v1alpha1.Partition,
	brokers map[int32]placement.BrokerState) bool {
	placed, next := metadata.PlacedPartition(before), metadata.PlacedPartition(after)
	unfenced := placed.UnfencedISR(brokers)
	return len(unfenced) < len(placed.ISR) && slices.Equal(unfenced, next.ISR)
}

// brokerStates returns the brokers of the last image in the form that package placement uses.
func (s *Store) brokerStates() map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	alive := s.alive.Load()
	if alive == nil {
		return all
	}
	for id, broker := range *alive {
		all[id] = broker.State()
	}
	return all
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
