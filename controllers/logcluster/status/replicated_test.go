package status

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/controllers/conditions"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/factstest"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// partitionsOf returns the partitions of Topic orders. Each partition is described by a letter: i
// has all replicas in sync, b has a replica that is behind, n has no leader, r is being reassigned,
// d is retained, a is only assigned.
func partitionsOf(states string) *facts.Facts {
	const uid = types.UID("8c9d0d6e-5b1e-4b0e-9b57-1f5a3ad4a1c2")
	set, _ := partitionset.Decode(&v1alpha1.PartitionSet{}, nil)
	for index, letter := range states {
		assignment := partitionset.Assignment{Replicas: []int32{0, 1}, Tag: sets.Tag(uid)}
		state := &partitionset.State{}
		state.Replicas = []int32{0, 1}
		state.ISR = []placement.InSyncReplica{{Broker: 0}, {Broker: 1}}
		switch letter {
		case 'b':
			state.ISR = state.ISR[:1]
		case 'n':
			state.Leader = placement.NoLeader
		case 'r':
			assignment.Replicas, state.Replicas = []int32{0, 2}, []int32{0, 2, 1}
		case 'd':
			assignment.Reclaim, state.ISR = partitionset.Retained, nil
		}
		key := partitionset.Key{Topic: "orders", Index: int32(index)}
		set.Assign(key, assignment)
		if letter != 'a' {
			set.PutState(key, *state)
		}
	}
	topic := v1alpha1.Topic{}
	topic.Name, topic.UID = "orders", uid
	return &facts.Facts{Cluster: &v1alpha1.LogCluster{}, Topics: []v1alpha1.Topic{topic},
		Sets: &sets.Cluster{Count: 1, Sets: map[int32]*partitionset.Set{0: set}}}
}

func TestReplicatedNamesPartitions(t *testing.T) {
	const up = "All brokers are up"
	for states, want := range map[string][]string{ // reason, message, message of Ready
		"":     {"InSync", "Every replica is in sync.", up + "."},
		"iidi": {"InSync", "Every replica is in sync.", up + "."},
		"ibn": {"UnderReplicated", "2 of 3 partitions are under-replicated: orders/1 orders/2.",
			up + "; 2 of 3 partitions are under-replicated."},
		"iiibbbbbbbbbb": {"UnderReplicated", "10 of 13 partitions are under-replicated: " +
			"orders/3 orders/4 orders/5 orders/6 orders/7 ....",
			up + "; 10 of 13 partitions are under-replicated."},
		"ir": {"Reassigning", "1 of 2 partitions are being reassigned: orders/1.",
			up + "; 1 of 2 partitions are under-replicated."},
		"rb": {"UnderReplicated", "1 of 2 partitions are under-replicated: orders/1. 1 others are " +
			"being reassigned.", up + "; 2 of 2 partitions are under-replicated."},
	} {
		replicas := partitionsOf(states).Replication()
		condition := replicas.Condition()
		got := []string{condition.Reason, condition.Message, replicas.ReadyMessage()}
		if !slices.Equal(got, want) || (condition.Status == "True") != (want[0] == "InSync") ||
			condition.Type != v1alpha1.ConditionReplicated {
			t.Errorf("%q: got %s %q, want %q", states, condition.Status, got, want)
		}
	}
}

// TestStatusContainsReplicated checks that condition Ready is True although partitions are
// under-replicated.
func TestStatusContainsReplicated(t *testing.T) {
	s, partitions := factstest.Outdated(), partitionsOf("bb")
	s.Topics, s.Sets = partitions.Topics, partitions.Sets
	status := describeCluster(s, nil, conditions.Removal{})
	want := []string{"Ready True All brokers are up; 2 of 2 partitions are under-replicated.",
		"Replicated False 2 of 2 partitions are under-replicated: orders/0 orders/1."}
	var got []string
	for _, c := range status.Conditions[:2] {
		got = append(got, c.Type+" "+string(c.Status)+" "+c.Message)
	}
	if !slices.Equal(got, want) || status.UnderReplicatedPartitions != 2 {
		t.Errorf("%d under-replicated, conditions %q, want %q", status.UnderReplicatedPartitions,
			got, want)
	}
}

// TestStatusCountsPartitionsWithoutLeader checks that partitions of deleted Topics do not count.
func TestStatusCountsPartitionsWithoutLeader(t *testing.T) {
	for states, want := range map[string]int32{"": 0, "ibrd": 0, "in": 1, "nbnd": 2, "anr": 2} {
		s, partitions := factstest.Outdated(), partitionsOf(states)
		s.Topics, s.Sets = partitions.Topics, partitions.Sets
		if got := describeCluster(s, nil, conditions.Removal{}).LeaderlessPartitions; got != want {
			t.Errorf("%q: got %d partitions without a leader, want %d", states, got, want)
		}
	}
}
