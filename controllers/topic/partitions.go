package topic

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
	"heartwood.dev/heartwood/controllers/laststatus"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// concurrentWrites is the number of Partitions of a Topic that are written at the same time. Each
// write spends most of its time waiting for the API server's disk.
const concurrentWrites = 16

// createPartitions creates the Partitions that are missing. The cache may be outdated, and a
// missing Partition may exist. A create request then fails, whereas an apply would change the
// replicas of the existing Partition. Method reassign changes existing Partitions.
func (r *Reconciler) createPartitions(ctx context.Context, s *scope) error {
	missing, err := s.missing()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentWrites)
	for _, partition := range missing {
		group.Go(func() error {
			if err := s.setOwner(partition, r.Scheme()); err != nil {
				return err
			}
			if err := r.Create(ctx, partition); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create partition %s: %w", partition.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// missing returns the Partitions to create, ordered by index. A Partition that existed before is
// created on the same brokers again. A new Partition with an entry in spec.initialReplicas gets the
// replicas of the entry. The entry is in the same version of the Topic as the number of partitions,
// so the operator cannot place the Partition before it reads the entry. All other new Partitions
// with adjacent indexes are assigned by one call of placement.Assign. Their replicas are added to
// s.load, which the next call uses.
//
// All brokers of the LogCluster's spec are candidates, even those that are down: an assignment is
// permanent, so the present state of brokers must not affect it.
func (s *scope) missing() ([]*v1alpha1.Partition, error) {
	brokers := s.brokers()
	var created []*v1alpha1.Partition
	for index := int32(0); index < s.topic.Spec.Partitions; {
		if s.partitions[index] == nil && s.placement.replicas[index] != nil {
			// If there is no last status, the event of the deletion has not arrived. It will
			// trigger another reconciliation.
			if last, known := s.lastStatus[index]; known {
				again := s.newPartition(index, s.placement.replicas[index])
				if err := laststatus.Annotate(again, last); err != nil {
					return nil, err
				}
				created = append(created, again)
			}
			index++
			continue
		}
		if replicas := s.initial[index]; replicas != nil {
			created = append(created, s.newPartition(index, replicas))
			s.addLoad(replicas)
			index++
			continue
		}
		count := s.unassigned(index)
		if count == 0 {
			index++
			continue
		}
		assigned, err := placement.Assign(brokers, s.load, int(index), int(count), s.replicas())
		if err != nil {
			return nil, fmt.Errorf("assign replicas: %w", err)
		}
		for _, replicas := range assigned {
			created = append(created, s.newPartition(index, replicas))
			s.addLoad(replicas)
			index++
		}
	}
	return created, nil
}

// addLoad adds the replicas of a new Partition to s.load.
func (s *scope) addLoad(replicas []int32) {
	for _, broker := range replicas {
		s.load[broker]++
	}
}

// unassigned returns the number of consecutive new Partitions from an index on that have no initial
// replicas. A Partition is new if it does not exist and never existed.
func (s *scope) unassigned(index int32) (count int32) {
	for at := index; at < s.topic.Spec.Partitions && s.partitions[at] == nil &&
		s.placement.replicas[at] == nil && s.initial[at] == nil; at++ {
		count++
	}
	return count
}

// brokers returns all brokers to which replicas may be assigned, with their racks if known.
func (s *scope) brokers() []placement.Broker {
	brokers := make([]placement.Broker, s.cluster.Spec.Brokers)
	for id := range brokers {
		brokers[id] = placement.Broker{ID: int32(id), Rack: s.racks[int32(id)]}
	}
	return brokers
}

// replicas returns the number of replicas that each partition should have. s.cluster must not be
// nil.
func (s *scope) replicas() int { return metadata.Replicas(s.topic.Spec.TopicSettings, s.cluster) }

// hasValidReplicas reports whether a Partition has as many replicas as the Topic requests, none of
// them on a broker that is to be removed. Replicas on any other brokers are valid, because a user
// may have moved them there.
func (s *scope) hasValidReplicas(partition *v1alpha1.Partition) bool {
	return len(partition.Spec.Replicas) == s.replicas() &&
		slices.Max(partition.Spec.Replicas) < s.cluster.Spec.Brokers
}

// reassign changes spec.replicas of Partitions without valid replicas, because the Topic's number
// of replicas has changed or brokers are to be removed. It moves as few replicas as possible. The
// change only sets the target; the brokers then copy the records (see placement.Decide). The write
// is a compare-and-swap, because the cache may be outdated. After a conflict, the event of the
// other write triggers another reconciliation.
func (r *Reconciler) reassign(ctx context.Context, s *scope) error {
	var invalid []*v1alpha1.Partition
	var current [][]int32
	for index := range s.topic.Spec.Partitions {
		if partition := s.partitions[index]; partition != nil && !s.hasValidReplicas(partition) {
			invalid, current = append(invalid, partition), append(current, partition.Spec.Replicas)
		}
	}
	if len(invalid) == 0 {
		return nil
	}
	targets, err := placement.Fit(s.brokers(), s.load, current, s.replicas())
	if err != nil {
		return fmt.Errorf("reassign partitions: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentWrites)
	for i, partition := range invalid {
		group.Go(func() error {
			changed := partition.DeepCopy()
			changed.Spec.Replicas = targets[i]
			err := r.Patch(ctx, changed,
				client.MergeFromWithOptions(partition, client.MergeFromWithOptimisticLock{}))
			if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("reassign partition %s: %w", partition.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (s *scope) newPartition(index int32, replicas []int32) *v1alpha1.Partition {
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

// setOwners sets the owners of existing Partitions as the reclaim policy requires. setOwner either
// adds one owner reference or removes all of them, so a changed number of references shows that a
// write is needed. The patch replaces the complete list of references, so it must be a
// compare-and-swap.
func (r *Reconciler) setOwners(ctx context.Context, s *scope) error {
	for _, partition := range s.partitions {
		owned := partition.DeepCopy()
		if err := s.setOwner(owned, r.Scheme()); err != nil {
			return err
		}
		if len(owned.OwnerReferences) == len(partition.OwnerReferences) {
			continue
		}
		if err := r.Patch(ctx, owned,
			client.MergeFromWithOptions(partition,
				client.MergeFromWithOptimisticLock{})); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				continue // the event of the other write triggers another reconciliation
			}
			return fmt.Errorf("set the owner of partition %s: %w", partition.Name, err)
		}
	}
	return nil
}

// setOwner makes the Topic the owner of a Partition if the Topic's reclaimPolicy is Delete, so that
// Kubernetes deletes the Partition with the Topic. With policy Retain, the Partition has no owner
// and is kept: its ISR and leader epoch are needed when a later Topic of the same name continues
// with the records.
func (s *scope) setOwner(partition *v1alpha1.Partition, scheme *runtime.Scheme) error {
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
