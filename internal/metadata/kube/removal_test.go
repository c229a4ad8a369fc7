package kube

import (
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// testRemoval checks that an image names the partitions whose records must be removed, and that a
// broker can record the removal. A report about another topic id must change nothing.
func testRemoval(f *fixture) {
	f.topic("orders", 1)
	f.lead(orders(0), 0, 3, 1)
	f.change(orders(0), func(set *partitionset.Set) {
		entry, _ := set.Get(orders(0))
		given := *entry.Assignment
		given.Tag, given.Reclaim = "abcdefgh", partitionset.Remove
		set.Assign(orders(0), given)
	})
	b := f.run(0, f.config)
	image := b.until("to be removed", func(i *metadata.Image) bool {
		return len(i.Retained) == 1 && i.Retained[0].Removing
	})
	removed := image.Retained[0]
	if removed.Tag != "abcdefgh" || !slices.Equal(removed.Replicas, []int32{0}) {
		f.t.Fatalf("%+v", removed)
	}
	other := removed
	other.Tag = "another1"
	if err := b.RecordRemoved(f.t.Context(), 0, []metadata.RetainedPartition{other}); err != nil ||
		f.entry(orders(0)).State == nil {
		f.t.Fatalf("a report about another topic: error %v, or the state is gone", err)
	}
	for range 2 { // the second report must change nothing
		if err := b.RecordRemoved(f.t.Context(), 0,
			[]metadata.RetainedPartition{removed}); err != nil {
			f.t.Fatal(err)
		}
	}
	if entry := f.entry(orders(0)); entry.State != nil || entry.Assignment == nil {
		f.t.Errorf("%+v, want no state, and the assignment left to the operator", entry)
	}
}
