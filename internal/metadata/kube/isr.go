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
	// isrAttempts is how often an ISR change is attempted while other writers change other parts of
	// the Partition: its condition, its spec.
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

// changeISR is a compare-and-swap on the Partition's resourceVersion. The proposal is checked
// against the very version that is replaced, so leader epoch and ISR are as the caller assumes, or
// the write is rejected. The members' broker epochs are checked against the Leases of the last
// image, which may be outdated. A member that has just failed stays in the ISR until the operator
// detects that and removes it. Until then the high watermark does not advance, so no record is
// acknowledged that only the failed member has.
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
		// The watch may be behind the caller, which knows the result of its last change. If this
		// read fails, nothing has been changed.
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

// partitionOf returns the cached Partition of a change without iterating over the others: when a
// broker fails, thousands of Partitions are changed.
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

// applyProposal returns a copy of a Partition with an ISR change. If placement rejects the change,
// the error wraps ErrISRConflict.
func applyProposal(p *v1alpha1.Partition, change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) (*v1alpha1.Partition, error) {
	placed, err := placement.ChangeISR(metadata.PlacedPartition(p), change.Proposal(), brokers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict, p.Name),
			err)
	}
	after := p.DeepCopy()
	metadata.RecordPlaced(&after.Status, placed)
	// The operator alone decides replicas and assignments.
	after.Status.Replicas, after.Status.Assignments = p.Status.Replicas, p.Status.Assignments
	if len(change.To) > len(change.From) {
		// A follower has caught up, so the leader serves.
		metadata.RecordServing(after, change.LeaderEpoch)
	}
	return after, nil
}

// removesFencedOnly reports whether a change only removes fenced members. Such a change need not be
// written: fenced members have no effect on the high watermark any more (ADR 0213), and the next
// write removes them. When a broker returns just after it was killed, this saves a write for each
// partition that it follows.
func removesFencedOnly(before, after *v1alpha1.Partition,
	brokers map[int32]placement.BrokerState) bool {
	placed, next := metadata.PlacedPartition(before), metadata.PlacedPartition(after)
	unfenced := placed.UnfencedISR(brokers)
	return len(unfenced) < len(placed.ISR) && slices.Equal(unfenced, next.ISR)
}

// brokerStates returns the brokers of the last image as placement requires them.
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
