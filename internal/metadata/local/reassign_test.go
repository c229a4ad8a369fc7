package local

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
)

func (s *Store) partitionOf(topic string) *metadata.Partition {
	return s.Image().Topic(topic).Partitions[0]
}

func TestReassign(t *testing.T) {
	s := openAltered(t, 3)
	startAll(t, s, 3)
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 2, Replicas: 2}); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(s.partitionOf("orders").Replicas)
	other := 3 - before[0] - before[1]
	move := func(replicas ...int32) error {
		return s.Reassign(t.Context(), []metadata.Move{{Topic: "orders", Replicas: replicas}})[0]
	}
	for _, bad := range [][]int32{{0}, {0, 0}, {0, 7}, {0, 1, 2}, {-1, 0}, {}} {
		if err := s.Reassign(t.Context(),
			[]metadata.Move{{Topic: "orders",
				Replicas: append([]int32{}, bad...)}})[0]; !errors.Is(err,
			metadata.ErrInvalidAssignment) {
			t.Errorf("reassignment to %v: got error %v, want ErrInvalidAssignment", bad, err)
		}
	}
	if err := move(); !errors.Is(err, metadata.ErrNoReassignment) {
		t.Errorf("cancel without a reassignment: got error %v, want ErrNoReassignment", err)
	}
	if err := s.Reassign(t.Context(),
		[]metadata.Move{{Topic: "orders", Partition: 2}})[0]; !errors.Is(err,
		metadata.ErrUnknownPartition) {
		t.Error(err)
	}
	if err := move(before[1], other); err != nil {
		t.Fatal(err)
	}
	p := s.partitionOf("orders")
	adding, removing := p.Moving()
	if !slices.Equal(adding, []int32{other}) || !slices.Equal(removing, before[:1]) ||
		len(p.Replicas) != 3 {
		t.Fatalf(
			"during the reassignment: got partition %+v, adding %v, removing %v",
			p,
			adding,
			removing,
		)
	}
	if err := move(); err != nil { // a move without replicas cancels the reassignment
		t.Fatal(err)
	}
	if p = s.partitionOf("orders"); !slices.Equal(p.Replicas, before) || p.Target != nil {
		t.Errorf("after the cancellation: got %+v, want replicas %v", p, before)
	}
}

// TestReassignChangesTheNumberOfReplicas checks that a request that moves all partitions of a topic
// to a larger or smaller number of replicas sets the topic's number. A request that does not move
// all of them, or that must not change the number, must have no effect.
func TestReassignChangesTheNumberOfReplicas(t *testing.T) {
	s := openAltered(t, 3)
	startAll(t, s, 3)
	if _, err := s.CreateTopic(t.Context(),
		metadata.NewTopic{Name: "orders", Partitions: 2, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	to := func(partition int32, replicas ...int32) metadata.Move {
		return metadata.Move{Topic: "orders", Partition: partition, Replicas: replicas}
	}
	keep := to(1, 0, 1)
	keep.SameNumber = true
	for _, c := range []struct {
		moves []metadata.Move
		want  error
	}{
		{[]metadata.Move{to(0, 0, 1)}, metadata.ErrInvalidAssignment},
		{[]metadata.Move{to(0, 0, 1), to(1, 2)}, metadata.ErrInvalidAssignment},
		{[]metadata.Move{to(0, 0, 1), to(1, 0, 1, 2)}, metadata.ErrInvalidAssignment},
		{[]metadata.Move{to(0, 0, 1), to(0, 1, 2)}, metadata.ErrInvalidAssignment},
		{[]metadata.Move{to(0, 0, 1), to(1, 0, 7)}, metadata.ErrInvalidAssignment},
		{[]metadata.Move{to(0, 0, 1), keep}, metadata.ErrInvalidReplication},
	} {
		faults := s.Reassign(t.Context(), c.moves)
		if !errors.Is(faults[0], c.want) {
			t.Errorf("%v: got errors %v, want %v", c.moves, faults, c.want)
		}
		if got := len(s.partitionOf("orders").Replicas); got != 1 {
			t.Fatalf("%v: %d replicas", c.moves, got)
		}
	}
	for _, replicas := range [][]int32{{2, 0, 1}, {1}, {0, 2}} {
		faults := s.Reassign(t.Context(), []metadata.Move{to(0, replicas...), to(1, replicas...)})
		if err := errors.Join(faults...); err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Image().Topic("orders").Partitions {
			if !metadata.AssignedTo(p, replicas) {
				t.Errorf("got %+v, want replicas %v", p, replicas)
			}
		}
		resource := s.changing.document.topicResource("orders")
		if n := resource.Spec.Replicas; n == nil || int(*n) != len(replicas) {
			t.Errorf("got %v replicas in the resource, want %d", n, len(replicas))
		}
	}
	if err := s.Reassign(t.Context(), []metadata.Move{to(0)})[0]; err == nil {
		t.Error("a change of the number was cancelled")
	}
}
