package assignment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
	"heartwood.dev/heartwood/internal/placement"
)

// concurrentReads is the number of Topics that are read at the same time.
const concurrentReads = 8

// verify drops planned removals if a read from the API server itself shows that the Topic exists.
// It drops removals of entries, and removals of records unless a part of these records was already
// removed.
func (r *Reconciler) verify(ctx context.Context, cluster types.NamespacedName, in input,
	p *plan) error {
	suspects := map[string]*v1alpha1.Topic{}
	for _, key := range p.removed {
		suspects[key.Topic] = &v1alpha1.Topic{}
	}
	for _, change := range p.assign {
		if change.after == nil || p.begins(change) {
			suspects[change.key.Topic] = &v1alpha1.Topic{}
		}
	}
	group, timed := errgroup.WithContext(ctx)
	group.SetLimit(concurrentReads)
	for name, topic := range suspects {
		group.Go(func() error {
			err := r.Live.Get(timed, types.NamespacedName{Namespace: cluster.Namespace,
				Name: name}, topic)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("get topic %s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	exists := func(key partitionset.Key) bool {
		topic, a := suspects[key.Topic], in.sets.Get(key).Assignment
		if topic.Spec.Cluster != cluster.Name { // also true if the Topic does not exist
			return false
		}
		return a == nil && key.Index < topic.Spec.Partitions || a != nil && a.Tag == sets.Tag(topic.UID)
	}
	p.removed = slices.DeleteFunc(p.removed, exists)
	p.assign = slices.DeleteFunc(p.assign, func(change assignmentChange) bool {
		return change.after == nil && exists(change.key) ||
			p.begins(change) && suspects[change.key.Topic].Spec.Cluster == cluster.Name
	})
	return nil
}

// write makes the changes of a plan: first changes of states, then changes of assignments.
func (r *Reconciler) write(ctx context.Context, name func(int32) string, in input, p plan) error {
	states, specs := map[int32][]commit.Change{}, map[int32][]assignmentChange{}
	for _, key := range p.removed {
		_, number := in.sets.Of(key)
		before := in.sets.Get(key)
		states[number] = append(states[number], func(set *partitionset.Set) error {
			if now, _ := set.Get(key); equal(now.Assignment, before.Assignment) {
				set.RemoveState(key)
			}
			return nil
		})
	}
	for _, key := range p.retired {
		_, number := in.sets.Of(key)
		states[number] = append(states[number], func(set *partitionset.Set) error {
			retire(set, key)
			return nil
		})
	}
	for _, change := range p.assign {
		_, number := in.sets.Of(change.key)
		specs[number] = append(specs[number], change)
	}
	var group errgroup.Group
	for number, changes := range states {
		group.Go(func() error {
			return written(errors.Join(r.Writer.ChangeStatuses(ctx, name(number), false, changes)...))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for number, changes := range specs {
		group.Go(func() error {
			return written(r.Writer.ChangeSpec(ctx, name(number),
				func(set *partitionset.Set) error { apply(set, changes); return nil }))
		})
	}
	return group.Wait()
}

// written returns the error of a write. It returns nil if the PartitionSet does not exist, because
// the event of its deletion triggers another pass.
func written(err error) error {
	if err == nil || errors.Is(err, commit.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("write assignments: %w", err)
}

// apply changes those assignments whose entries have not changed since the plan was made. It
// removes an assignment only if the partition has no state.
func apply(set *partitionset.Set, changes []assignmentChange) {
	for _, change := range changes {
		now, _ := set.Get(change.key)
		switch {
		case !equal(now.Assignment, change.before) || set.Invalid(change.key):
		case change.after != nil:
			set.Assign(change.key, *change.after)
		case now.State == nil:
			set.Unassign(change.key)
		}
	}
}

// retire removes the leader of a partition whose Topic no longer exists.
func retire(set *partitionset.Set, key partitionset.Key) {
	now, _ := set.Get(key)
	if now.State == nil {
		return
	}
	retired := *now.State
	retired.Partition, retired.Serving = placement.Retire(retired.Partition), false
	set.PutState(key, retired)
}

// equal reports whether two assignments are equal. Both can be nil.
func equal(a, b *partitionset.Assignment) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Tag == b.Tag && a.Reclaim == b.Reclaim && slices.Equal(a.Replicas, b.Replicas)
}
