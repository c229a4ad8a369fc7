package controllers

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement"
)

// writesAtOnce is how many Partitions of a Topic are written at the same time: each write waits for
// the API server's disk.
const writesAtOnce = 16

// makePartitions makes those that are missing. Those that exist stay where they are: see fit.
//
// It creates, and does not apply: our cache may be late, and an apply would then move a partition
// that exists.
func (r *topicReconciler) makePartitions(ctx context.Context, scope *topicScope) error {
	missing, err := scope.missing()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writesAtOnce)
	for _, partition := range missing {
		group.Go(func() error {
			if err := scope.setOwner(partition, r.Scheme()); err != nil {
				return err
			}
			if err := r.Create(ctx, partition); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("make partition %s: %w", partition.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// missing returns the partitions that are to be made: those that were there before where they were,
// of the others each run of neighbours placed together. They come by index. What is placed counts
// at once in s.load, so the next run sees it.
//
// Every broker of the spec is a candidate, up or not: a place is for long, and must not hang on who
// was up at the moment.
func (s *topicScope) missing() ([]*v1alpha1.Partition, error) {
	brokers := s.brokers()
	var made []*v1alpha1.Partition
	for index := int32(0); index < s.topic.Spec.Partitions; {
		if s.partitions[index] == nil && s.placed.replicas[index] != nil {
			// One that is not known to have been deleted waits for that event, which calls us
			// again.
			if last, known := s.departed[index]; known {
				again := s.partition(index, s.placed.replicas[index])
				if err := remember(again, last); err != nil {
					return nil, err
				}
				made = append(made, again)
			}
			index++
			continue
		}
		count := s.gap(index)
		if count == 0 {
			index++
			continue
		}
		placed, err := placement.Assign(brokers, s.load, int(index), int(count), s.replicas())
		if err != nil {
			return nil, fmt.Errorf("place partitions: %w", err)
		}
		for _, replicas := range placed {
			made = append(made, s.partition(index, replicas))
			index++
			for _, broker := range replicas {
				s.load[broker]++
			}
		}
	}
	return made, nil
}

// brokers are those that replicas may be on, with their racks as far as they are known.
func (s *topicScope) brokers() []placement.Broker {
	brokers := make([]placement.Broker, s.cluster.Spec.Brokers)
	for id := range brokers {
		brokers[id] = placement.Broker{ID: int32(id), Rack: s.racks[int32(id)]}
	}
	return brokers
}

// fits tells whether a partition has as many replicas as the topic asks for, all on brokers that
// stay. Which brokers those are is of no matter here: somebody may have moved it.
func (s *topicScope) fits(partition *v1alpha1.Partition) bool {
	return len(partition.Spec.Replicas) == s.replicas() &&
		slices.Max(partition.Spec.Replicas) < s.cluster.Spec.Brokers
}

// fit moves the partitions that do not fit: the topic has another number of replicas now, or
// brokers are to go. As little as can be is moved, and brokers do it: spec.replicas only says where
// to (see placement.Decide). The cache may be late, hence the lock; who loses looks again by the
// winner's event.
func (r *topicReconciler) fit(ctx context.Context, scope *topicScope) error {
	var unfit []*v1alpha1.Partition
	var placed [][]int32
	for index := range scope.topic.Spec.Partitions {
		if partition := scope.partitions[index]; partition != nil && !scope.fits(partition) {
			unfit, placed = append(unfit, partition), append(placed, partition.Spec.Replicas)
		}
	}
	if len(unfit) == 0 {
		return nil
	}
	fitted, err := placement.Fit(scope.brokers(), scope.load, placed, scope.replicas())
	if err != nil {
		return fmt.Errorf("fit partitions: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writesAtOnce)
	for i, partition := range unfit {
		group.Go(func() error {
			moved := partition.DeepCopy()
			moved.Spec.Replicas = fitted[i]
			err := r.Patch(ctx, moved,
				client.MergeFromWithOptions(partition, client.MergeFromWithOptimisticLock{}))
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("move partition %s: %w", partition.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// gap is how many partitions are to be placed from index on, without a break.
func (s *topicScope) gap(index int32) (count int32) {
	for at := index; at < s.topic.Spec.Partitions && s.partitions[at] == nil &&
		s.placed.replicas[at] == nil; at++ {
		count++
	}
	return count
}

func (s *topicScope) partition(index int32, replicas []int32) *v1alpha1.Partition {
	return &v1alpha1.Partition{
		ObjectMeta: metav1.ObjectMeta{
			Name:      v1alpha1.PartitionName(s.topic.Name, index),
			Namespace: s.topic.Namespace,
			Labels:    map[string]string{v1alpha1.LabelCluster: s.topic.Spec.Cluster},
		},
		Spec: v1alpha1.PartitionSpec{Cluster: s.topic.Spec.Cluster, Topic: s.topic.Name,
			Index: index, Replicas: replicas},
	}
}

// own brings the owners of the partitions that exist to what the reclaim policy asks for. setOwner
// adds one reference or takes all away, so a change shows in their number. The patch replaces the
// list as a whole, hence the optimistic lock.
func (r *topicReconciler) own(ctx context.Context, scope *topicScope) error {
	for _, partition := range scope.partitions {
		owned := partition.DeepCopy()
		if err := scope.setOwner(owned, r.Scheme()); err != nil {
			return err
		}
		if len(owned.OwnerReferences) == len(partition.OwnerReferences) {
			continue
		}
		if err := r.Patch(ctx, owned,
			client.MergeFromWithOptions(partition,
				client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				continue // the event of that change brings us here again
			}
			return fmt.Errorf("set the owner of partition %s: %w", partition.Name, err)
		}
	}
	return nil
}

// setOwner lets a partition go with its Topic, or outlive it. Where the records stay, so must the
// memory of who holds them and of the leader epochs they carry: a Topic of the same name made later
// goes on from there.
func (s *topicScope) setOwner(partition *v1alpha1.Partition, scheme *runtime.Scheme) error {
	if s.topic.Spec.ReclaimPolicy == v1alpha1.ReclaimDelete {
		if err := controllerutil.SetControllerReference(s.topic, partition, scheme); err != nil {
			return fmt.Errorf("set the owner of partition %s: %w", partition.Name, err)
		}
		return nil
	}
	if metav1.IsControlledBy(partition, s.topic) {
		partition.OwnerReferences = nil
	}
	return nil
}
