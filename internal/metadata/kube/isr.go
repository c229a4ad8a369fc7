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

// isrTries is how often an ISR is proposed while others change the same Partition otherwise: its
// condition, its spec.
const isrTries = 4

// isrChanges is how many Partitions are written at once.
const isrChanges = 8

// ChangeISR implements metadata.Store: one write for each Partition.
func (s *Store) ChangeISR(ctx context.Context, changes []metadata.ISRChange,
	settled func(change int, err error)) {
	metadata.ChangeISREach(isrChanges, s.changeISR)(ctx, changes, func(change int, err error) {
		settled(change, err)
		if len(changes) > isrChanges {
			s.written.giveWay(ctx)
		}
	})
}

// changeISR is a compare-and-swap on the Partition's resourceVersion. What is checked first is
// checked of the very version that is written over, so leader epoch and ISR are as the caller
// means, or the write is refused. Of the members' incarnations the Leases tell as we know them;
// that may be a moment old. One that died in it is in the ISR until the operator, who sees it die,
// takes it out again: till then the high watermark waits, and no record is acknowledged that only
// the dead had.
func (s *Store) changeISR(ctx context.Context, change metadata.ISRChange) error {
	watched, err := s.partitionOf(ctx, change)
	if err != nil {
		return err
	}
	defer s.written.lock(watched.Name)()
	partition := s.written.newest(watched)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for try := range isrTries {
		changed, refused := proposed(partition, change, s.standings())
		if refused == nil && outOnly(partition, changed, s.standings()) {
			return fmt.Errorf("%w: those who leave partition %s have ended, and count no more",
				metadata.ErrISRConflict, partition.Name)
		}
		if refused != nil && try > 0 {
			return refused
		}
		if refused == nil {
			err := s.written.update(ctx, s.client, changed)
			switch {
			case err == nil:
				return nil
			case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
				return errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict,
					partition.Name), err)
			case !apierrors.IsConflict(err):
				return fmt.Errorf("change the in-sync replicas of partition %s: %w", partition.Name,
					err)
			}
		}
		// The watch may be behind what the caller knows already, from its last change. A failed
		// read changes nothing.
		live := &v1alpha1.Partition{}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(partition), live); err != nil {
			return errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict,
				partition.Name), err)
		}
		partition = live
	}
	return fmt.Errorf("%w: partition %s is changed too often", metadata.ErrISRConflict,
		partition.Name)
}

// partitionOf finds the Partition of a change as the watch knows it, without a walk over the
// others: when a broker goes, each of thousands is changed. One that is gone can be changed no
// more.
func (s *Store) partitionOf(ctx context.Context, change metadata.ISRChange) (*v1alpha1.Partition,
	error) {
	names := s.names.Load()
	if names == nil {
		return nil, fmt.Errorf("%w: nothing is known of the topics yet", metadata.ErrISRConflict)
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

// proposed is the Partition as a change makes it; the one that it is given stays as it is. Refused,
// it wraps ErrISRConflict.
func proposed(p *v1alpha1.Partition, change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) (*v1alpha1.Partition, error) {
	placed, err := placement.ChangeISR(metadata.PlacedPartition(p), change.Proposal(), brokers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: partition %s", metadata.ErrISRConflict, p.Name),
			err)
	}
	after := p.DeepCopy()
	metadata.RecordPlaced(&after.Status, placed)
	// the operator's to say
	after.Status.Replicas, after.Status.Assignments = p.Status.Replicas, p.Status.Assignments
	if len(change.To) > len(change.From) {
		metadata.RecordServing(after, change.LeaderEpoch) // whom a follower has fetched from serves
	}
	return after, nil
}

// outOnly tells whether a change only drops members that have ended. That need not be written: they
// count no more, and whoever writes next leaves them out. When a broker is back a moment after it
// was killed, that saves a write for each partition that it follows.
func outOnly(before, after *v1alpha1.Partition, brokers map[int32]placement.BrokerState) bool {
	placed, next := metadata.PlacedPartition(before), metadata.PlacedPartition(after)
	lasting := placed.UnfencedISR(brokers)
	return len(lasting) < len(placed.ISR) && slices.Equal(lasting, next.ISR)
}

// standings are the brokers that are up in the last image, for decisions.
func (s *Store) standings() map[int32]placement.BrokerState {
	all := map[int32]placement.BrokerState{}
	up := s.up.Load()
	if up == nil {
		return all
	}
	for id, broker := range *up {
		all[id] = broker.Standing()
	}
	return all
}

// AnnounceShutdown implements metadata.ShutdownAnnouncer: the Lease says so at once, and with each renewal.
func (s *Store) AnnounceShutdown(ctx context.Context) error {
	keeper := s.keeper.Load()
	if keeper == nil {
		return errors.New("this broker is not registered")
	}
	return keeper.requestLeaving(ctx)
}
