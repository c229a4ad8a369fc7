package kube

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// testReassignAndElect checks that Reassign changes the assignment. ElectPreferred must fail for a
// partition whose preferred leader is not in sync, and for a partition that does not exist.
func testReassignAndElect(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	f.topic("orders", 1)
	b.until("partition delivered", func(i *metadata.Image) bool {
		return i.Topic("orders") != nil && len(i.Topic("orders").Partitions) == 1
	})
	ctx := f.t.Context()
	f.lead(orders(0), 2, 5, 1) // broker 0 is the preferred leader
	ref := []metadata.PartitionRef{{Topic: "orders"}, {Topic: "never"},
		{Topic: "orders", Partition: 1}, {Topic: "orders", Partition: -1}}
	faults := b.ElectPreferred(ctx, ref)
	for i, want := range []error{metadata.ErrPreferredUnavailable, metadata.ErrUnknownPartition,
		metadata.ErrUnknownPartition, metadata.ErrUnknownPartition} {
		if !errors.Is(faults[i], want) {
			f.t.Errorf("ElectPreferred %+v: got error %v, want %v", ref[i], faults[i], want)
		}
	}
	faults = b.Reassign(ctx, []metadata.Move{{Topic: "orders", Replicas: []int32{0, 1}},
		{Topic: "orders", Replicas: []int32{99}}, {Topic: "never", Replicas: []int32{1}},
		{Topic: "orders", Partition: 1, Replicas: []int32{1}}})
	for i, want := range []error{metadata.ErrInvalidAssignment, metadata.ErrInvalidAssignment,
		metadata.ErrUnknownPartition, metadata.ErrUnknownPartition} {
		if !errors.Is(faults[i], want) {
			f.t.Errorf("invalid reassignment %d: got error %v, want %v", i, faults[i], want)
		}
	}
	before := f.entry(orders(0)).Assignment
	if err := b.Reassign(ctx,
		[]metadata.Move{{Topic: "orders", Replicas: []int32{1}}})[0]; err != nil {
		f.t.Fatal(err)
	}
	if got := f.entry(orders(0)).Assignment; !slices.Equal(got.Replicas, []int32{1}) ||
		got.Tag != before.Tag || got.Reclaim != before.Reclaim {
		f.t.Errorf("got assignment %+v, want the one of broker 1", got)
	}
}

// testReassignChangesReplicas checks that a move of all partitions of a topic to another number of
// replicas changes the number in the Topic, and that a move to a broker that does not exist changes
// nothing.
func testReassignChangesReplicas(f *fixture) {
	f.topic("orders", 2)
	for index := range int32(2) {
		f.assign(orders(index), 0)
	}
	b := f.run(0, f.config)
	b.until("partitions delivered", func(i *metadata.Image) bool {
		return i.Topic("orders") != nil && len(i.Topic("orders").Partitions) == 2
	})
	to := func(second int32) []metadata.Move {
		return []metadata.Move{{Topic: "orders", Replicas: []int32{1, 0}},
			{Topic: "orders", Partition: 1, Replicas: []int32{0, second}}}
	}
	before := f.replicas("orders")
	for _, moves := range [][]metadata.Move{to(99), to(1)[:1]} {
		if faults := b.Reassign(f.t.Context(), moves); !errors.Is(faults[0],
			metadata.ErrInvalidAssignment) {
			f.t.Errorf("%v: got errors %v, want an invalid assignment", moves, faults)
		}
	}
	if got := f.replicas("orders"); (got == nil) != (before == nil) ||
		got != nil && *got != *before {
		f.t.Errorf("a refused move has changed the number of replicas to %v", got)
	}
	if err := errors.Join(b.Reassign(f.t.Context(), to(1))...); err != nil {
		f.t.Fatal(err)
	}
	if got := f.replicas("orders"); got == nil || *got != 2 {
		f.t.Errorf("got %v replicas, want 2", got)
	}
	for index, want := range [][]int32{{1, 0}, {0, 1}} {
		if got := f.entry(orders(int32(index))).Assignment; !slices.Equal(got.Replicas, want) {
			f.t.Errorf("partition %d: got assignment %+v, want %v", index, got, want)
		}
	}
}

// replicas returns a Topic's spec.replicas.
func (f *fixture) replicas(topic string) *int32 {
	resource := &v1alpha1.Topic{}
	f.get(topic, resource)
	return resource.Spec.Replicas
}

// testMovesShareWrites checks that the requests for all partitions of a set are made in one write.
// Cancelling must fail for a partition that is not being moved.
func testMovesShareWrites(f *fixture) {
	const partitions = 8
	f.topic("orders", partitions)
	for index := range int32(partitions) {
		f.assign(orders(index), 0, 1)
	}
	b := f.run(0, f.config)
	b.until("partitions delivered", func(i *metadata.Image) bool {
		return i.Topic("orders") != nil && len(i.Topic("orders").Partitions) == partitions
	})
	var moves []metadata.Move
	var refs []metadata.PartitionRef
	for index := range int32(partitions) {
		f.change(orders(index), func(set *partitionset.Set) {
			set.PutState(orders(index), partitionset.State{Partition: placement.Partition{
				Replicas: []int32{0, 1}, Leader: 0, LeaderEpoch: 3,
				ReplicaIncarnations: map[int32]string{0: "i", 1: "i"},
				ISR:                 []placement.InSyncReplica{{Broker: 0, Epoch: 1}, {Broker: 1, Epoch: 1}}}})
		})
		moves = append(moves, metadata.Move{Topic: "orders", Partition: index,
			Replicas: []int32{1, 0}})
		refs = append(refs, metadata.PartitionRef{Topic: "orders", Partition: index})
	}
	cancelled := slices.Clone(moves)
	for i := range cancelled {
		cancelled[i].Replicas = nil
	}
	for i, err := range b.Reassign(f.t.Context(), cancelled) {
		if !errors.Is(err, metadata.ErrNoReassignment) {
			f.t.Errorf("cancel move %d: got error %v", i, err)
		}
	}
	before := b.writes()
	if err := errors.Join(b.Reassign(f.t.Context(), moves)...); err != nil {
		f.t.Fatal(err)
	}
	if err := errors.Join(b.ElectPreferred(f.t.Context(), refs)...); err != nil {
		f.t.Fatal(err)
	}
	for index := range int32(partitions) {
		entry := f.entry(orders(index))
		if fmt.Sprint(entry.Assignment.Replicas, entry.State.Prefer) != "[1 0] 3" {
			f.t.Errorf("partition %d: got assignment %v, requested election in epoch %d", index,
				entry.Assignment.Replicas, entry.State.Prefer)
		}
	}
	if made := b.writes() - before; made != 2*testSets {
		f.t.Errorf("%d writes, want one for each set and request", made)
	}
}
