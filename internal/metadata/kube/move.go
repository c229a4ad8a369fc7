package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// Reassign implements metadata.Mover. It changes the assignments, with one write for each
// PartitionSet; the operator then carries out the reassignment.
//
// If the moves change a topic's number of replicas, Reassign changes the topic's resource first.
// Until the assignments are written, the operator may already have chosen other brokers for the
// replicas; the write then replaces its assignment. In the opposite order, the operator would
// restore the former number.
func (s *Store) Reassign(ctx context.Context, moves []metadata.Move) []error {
	faults, err := s.changeNumbers(ctx, moves)
	if err != nil {
		return slices.Repeat([]error{err}, len(moves))
	}
	var accepted []int // indexes of the accepted moves
	var refs []metadata.PartitionRef
	for i, move := range moves {
		if faults[i] == nil {
			accepted = append(accepted, i)
			refs = append(refs, metadata.PartitionRef{Topic: move.Topic,
				Partition: move.Partition})
		}
	}
	failed := s.changeSets(ctx, refs, s.writer.ChangeSpecs,
		func(i int, location place, brokers int32) commit.Change {
			return func(set *partitionset.Set) error {
				return reassign(set, location, moves[accepted[i]], brokers)
			}
		})
	for i, err := range failed {
		faults[accepted[i]] = err
	}
	return faults
}

// changeNumbers changes topics' numbers of replicas if the moves require it. It returns one error
// for each move. It first checks the brokers in the moves, because a rejected move must not change
// a number.
func (s *Store) changeNumbers(ctx context.Context, moves []metadata.Move) ([]error, error) {
	all, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	byName := all.byKafkaName()
	numbers, faults := metadata.ReplicaNumbers(moves,
		func(name string) *v1alpha1.Topic { return byName[name] }, all.cluster)
	for name, number := range numbers {
		err := checkBrokers(moves, name, all.cluster)
		if err == nil {
			err = s.patchTopic(ctx, name, false,
				func(t *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
					return metadata.WithReplicas(t, number, cluster)
				})
		}
		for i, move := range moves {
			if move.Topic == name && err != nil {
				faults[i] = err
			}
		}
	}
	return faults, nil
}

// checkBrokers checks the replicas that the moves request for a topic.
func checkBrokers(moves []metadata.Move, topic string, cluster *v1alpha1.LogCluster) error {
	for _, move := range moves {
		if move.Topic != topic || move.Replicas == nil || cluster == nil {
			continue
		}
		_, err := metadata.CheckMove(&metadata.Partition{}, move,
			func(id int32) bool { return id >= 0 && id < cluster.Spec.Brokers })
		if err != nil {
			return err
		}
	}
	return nil
}

// reassign changes a partition's assignment. brokers is the number of brokers, up or down.
func reassign(set *partitionset.Set, location place, move metadata.Move, brokers int32) error {
	entry, _ := set.Get(location.key)
	image := &metadata.Partition{}
	fillPartition(image, entry, nil)
	if entry.Lent { // A move concerns the partition's replica, and ends the loan.
		image.Target = entry.Assignment.Replicas[:1]
	}
	target, err := metadata.CheckMove(image, move,
		func(id int32) bool { return id >= 0 && id < brokers })
	if err != nil {
		return err
	}
	next := *entry.Assignment
	next.Replicas = target
	set.Assign(location.key, next)
	return nil
}

// ElectPreferred implements metadata.Mover. It passes requests for elections to the operator,
// through the PartitionSets.
func (s *Store) ElectPreferred(ctx context.Context, partitions []metadata.PartitionRef) []error {
	change := func(ctx context.Context, set string, changes []commit.Change) []error {
		return s.writer.ChangeStatuses(ctx, set, false, changes)
	}
	return s.changeSets(ctx, partitions, change, func(_ int, location place, _ int32) commit.Change {
		return func(set *partitionset.Set) error { return set.RequestPreferred(location.key) }
	})
}

// setChanges contains changes of one PartitionSet.
type setChanges struct {
	indexes []int // indexes of the requests
	changes []commit.Change
}

// changeSets makes one change for each partition, with one write for each PartitionSet. It returns
// one error for each partition, in the order of refs. change returns the change for the partition
// with the given index in refs; it is called only for partitions that exist.
func (s *Store) changeSets(ctx context.Context, refs []metadata.PartitionRef,
	write func(ctx context.Context, set string, changes []commit.Change) []error,
	change func(i int, location place, brokers int32) commit.Change) []error {
	faults := make([]error, len(refs))
	all, err := s.resources(ctx)
	if err != nil {
		for i := range faults {
			faults[i] = err
		}
		return faults
	}
	sets := map[string]*setChanges{}
	find := all.finder()
	for i, ref := range refs {
		location, ok := find(ref)
		if !ok {
			faults[i] = unknownPartition(ref)
			continue
		}
		pending := sets[location.set]
		if pending == nil {
			pending = &setChanges{}
			sets[location.set] = pending
		}
		pending.indexes = append(pending.indexes, i)
		made := change(i, location, all.cluster.Spec.Brokers)
		pending.changes = append(pending.changes, func(set *partitionset.Set) error {
			if !location.assigned(set) {
				return unknownPartition(ref)
			}
			return made(set)
		})
	}
	var writers sync.WaitGroup
	for name, setChanges := range sets {
		writers.Go(func() {
			for index, err := range write(ctx, name, setChanges.changes) {
				faults[setChanges.indexes[index]] = setError(err)
			}
		})
	}
	writers.Wait()
	return faults
}

func unknownPartition(ref metadata.PartitionRef) error {
	return fmt.Errorf("%w: %s-%d", metadata.ErrUnknownPartition, ref.Topic, ref.Partition)
}

// finder returns a function that locates a partition of an existing topic.
func (r resources) finder() func(metadata.PartitionRef) (location place, ok bool) {
	directory := r.directory(nil)
	byName := map[string]metadata.ID{}
	count := map[string]int32{}
	if r.cluster != nil {
		for name, t := range r.byKafkaName() {
			if topicID, err := id(t.UID); err == nil {
				byName[name], count[name] = topicID, t.Spec.Partitions
			}
		}
	}
	return func(ref metadata.PartitionRef) (place, bool) {
		topicID, known := byName[ref.Topic]
		if !known || ref.Partition < 0 || ref.Partition >= count[ref.Topic] {
			return place{}, false
		}
		return directory.place(topicID, ref.Partition)
	}
}

// setError converts the result of a change to the errors of metadata.Mover.
func setError(err error) error {
	for _, own := range []error{nil, metadata.ErrUnknownPartition, metadata.ErrInvalidAssignment,
		metadata.ErrNoReassignment, metadata.ErrElectionNotNeeded,
		metadata.ErrPreferredUnavailable} {
		if errors.Is(err, own) {
			return err
		}
	}
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidAssignment, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", metadata.ErrPolicy, err)
	}
	return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
}
