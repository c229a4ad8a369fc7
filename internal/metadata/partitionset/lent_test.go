package partitionset

import (
	"maps"
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// lending returns a set with a partition of one replica and a partition of two replicas.
func lending(t *testing.T) *Set {
	t.Helper()
	set, faults := Decode(&v1alpha1.PartitionSet{Spec: v1alpha1.PartitionSetSpec{
		Assignments: map[string]string{"orders/0": "2 k3f9x2ab", "orders/1": "0,1 k3f9x2ab"},
		Lent:        map[string]int32{"orders/1": 2, "gone/0": 1, "no key": 1}}}, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set
}

// expectLoans encodes and decodes a set, and checks the replicas and the loans.
func expectLoans(t *testing.T, set *Set, replicas []int32, lent map[string]int32) {
	t.Helper()
	object := &v1alpha1.PartitionSet{}
	set.EncodeSpec(object)
	if !maps.Equal(object.Spec.Lent, lent) {
		t.Errorf("loans %v, want %v", object.Spec.Lent, lent)
	}
	again, faults := Decode(object, set)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for _, each := range []*Set{set, again, again.Clone()} {
		for key, entry := range each.All() {
			_, want := lent[key.String()]
			if entry.Lent != want {
				t.Errorf("%s: lent %t, want %t", key, entry.Lent, want)
			}
			if key.Index == 0 && !slices.Equal(entry.Assignment.Replicas, replicas) {
				t.Errorf("%s: replicas %v, want %v", key, entry.Assignment.Replicas, replicas)
			}
		}
	}
}

func TestLoansAreStoredBesideAssignments(t *testing.T) {
	first, second := Key{"orders", 0}, Key{"orders", 1}
	set := lending(t)
	expectLoans(t, set, []int32{2}, nil) // a loan has no effect if its broker is not in the assignment
	set.Lend(first, 2)
	set.Lend(second, 2)
	set.Lend(Key{"gone", 0}, 2)
	set.TakeBack(second)
	set.KeepLent(second)
	if set.SpecChanged() {
		t.Error("loans without effect have changed the set")
	}
	set.Lend(first, 0)
	expectLoans(t, set, []int32{2, 0}, map[string]int32{"orders/0": 0})
	set.Lend(first, 1) // the partition already has a loan
	expectLoans(t, set, []int32{2, 0}, map[string]int32{"orders/0": 0})
	set.TakeBack(first)
	expectLoans(t, set, []int32{2}, nil)
	set.Lend(first, 1)
	set.KeepLent(first)
	expectLoans(t, set, []int32{2, 1}, nil)
}

func TestAnotherAssignmentEndsALoan(t *testing.T) {
	key := Key{"orders", 0}
	for name, replicas := range map[string][]int32{"moved": {1}, "more": {2, 0, 1}, "other": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			set := lending(t)
			set.Lend(key, 0)
			entry, _ := set.Get(key)
			next := *entry.Assignment
			next.Replicas = replicas
			set.Assign(key, next)
			expectLoans(t, set, replicas, nil)
		})
	}
}

// TestEarlierBrokersIgnoreLoans checks the effect of a broker of an earlier version, which does not
// know loans, decoding and writing a set.
func TestEarlierBrokersIgnoreLoans(t *testing.T) {
	set := lending(t)
	set.Lend(Key{"orders", 0}, 0)
	object := &v1alpha1.PartitionSet{}
	set.EncodeSpec(object)
	object.Spec.Lent = nil
	earlier, faults := Decode(object, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	expectLoans(t, earlier, []int32{2, 0}, nil)
}
