package kube

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// patchTries is how often a change is made anew on what somebody else has written meanwhile.
const patchTries = 4

// AlterTopic implements metadata.Alterer: it patches the Topic resource, whoever made it. A
// manifest that says otherwise says so again with the next apply.
func (s *Store) AlterTopic(ctx context.Context, change metadata.TopicChange) error {
	return s.patchTopic(ctx, change.Name, change.Validate,
		func(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
			return metadata.AlteredTopic(topic, change, cluster)
		})
}

// CreatePartitions implements metadata.Alterer. The operator makes the Partitions.
func (s *Store) CreatePartitions(ctx context.Context, partitions metadata.NewPartitions) error {
	return s.patchTopic(ctx, partitions.Name, partitions.Validate,
		func(topic *v1alpha1.Topic, _ *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
			return metadata.GrownTopic(topic, partitions.Count)
		})
}

// patchTopic changes what a Topic says by compare-and-swap: alter sees the very version that is
// written over.
func (s *Store) patchTopic(ctx context.Context, name string, check bool,
	alter func(*v1alpha1.Topic, *v1alpha1.LogCluster) (*v1alpha1.Topic, error)) error {
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	if all.cluster == nil {
		return fmt.Errorf("%w: LogCluster %s is not there", metadata.ErrUnavailable, s.opts.Cluster)
	}
	topic, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if check {
		options = append(options, client.DryRunAll)
	}
	err = s.patch(ctx, topic, func() (client.Object, error) { return alter(topic, all.cluster) },
		options...)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %q: %w", metadata.ErrTopicNotFound, name, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	case err != nil:
		return fmt.Errorf("change topic %q: %w", name, err)
	}
	return nil
}

// patch writes what change makes of a resource, and reads it again when somebody else was faster.
// change reads the resource as it is at the time, and returns another.
func (s *Store) patch(ctx context.Context, resource client.Object,
	change func() (client.Object, error), options ...client.PatchOption) error {
	var err error
	for range patchTries {
		changed, changeErr := change()
		if changeErr != nil {
			return changeErr
		}
		before := resource.DeepCopyObject().(client.Object) //nolint:forcetypeassert // of its own type
		err = s.client.Patch(ctx, changed,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
		if !apierrors.IsConflict(err) {
			return refused(err)
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(resource), resource); err != nil {
			return refused(err)
		}
	}
	return refused(err)
}

// Reassign implements metadata.Mover: spec.replicas of each Partition says where to, and the
// operator leads the way.
func (s *Store) Reassign(ctx context.Context, moves []metadata.Move) []error {
	faults := make([]error, len(moves))
	for i, move := range moves {
		faults[i] = s.patchPartition(ctx,
			metadata.PartitionRef{Topic: move.Topic, Partition: move.Partition},
			func(p *v1alpha1.Partition, brokers int32) error {
				image := &metadata.Partition{}
				fill(image, p, nil)
				wanted, err := metadata.CheckMove(image, move,
					func(id int32) bool { return id >= 0 && id < brokers })
				if err == nil {
					p.Spec.Replicas = wanted
				}
				return err
			})
	}
	return faults
}

// ElectPreferred implements metadata.Mover: an annotation asks the operator.
func (s *Store) ElectPreferred(ctx context.Context, partitions []metadata.PartitionRef) []error {
	faults := make([]error, len(partitions))
	for i, ref := range partitions {
		faults[i] = s.patchPartition(ctx, ref, func(p *v1alpha1.Partition, _ int32) error {
			home := p.Spec.Replicas[0]
			switch {
			case p.Status.Leader == home:
				return metadata.ErrElectionNotNeeded
			case !slices.ContainsFunc(p.Status.ISR, func(r v1alpha1.InSyncReplica) bool { return r.Broker == home }):
				return fmt.Errorf("%w: broker %d is not in sync", metadata.ErrPreferredUnavailable,
					home)
			}
			if p.Annotations == nil {
				p.Annotations = map[string]string{}
			}
			p.Annotations[v1alpha1.AnnotationElectPreferred] = strconv.Itoa(
				int(p.Status.LeaderEpoch),
			)
			return nil
		})
	}
	return faults
}

// patchPartition changes a Partition that the watches know, by compare-and-swap. change writes into
// the copy that it is given.
func (s *Store) patchPartition(ctx context.Context, ref metadata.PartitionRef,
	change func(p *v1alpha1.Partition, brokers int32) error) error {
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	unknown := fmt.Errorf("%w: %s-%d", metadata.ErrUnknownPartition, ref.Topic, ref.Partition)
	if all.cluster == nil {
		return unknown
	}
	topic := all.named()[ref.Topic]
	if topic == nil {
		return unknown
	}
	at := slices.IndexFunc(all.partitions, func(p *v1alpha1.Partition) bool {
		return p.Spec.Topic == topic.Name && p.Spec.Cluster == topic.Spec.Cluster &&
			p.Spec.Index == ref.Partition && p.DeletionTimestamp.IsZero()
	})
	if at < 0 || ref.Partition >= topic.Spec.Partitions {
		return unknown
	}
	partition := all.partitions[at].DeepCopy() // what the watches know is not ours to write into
	err = s.patch(ctx, partition, func() (client.Object, error) {
		changed := partition.DeepCopy()
		return changed, change(changed, all.cluster.Spec.Brokers)
	})
	switch {
	case apierrors.IsNotFound(err):
		return unknown
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidAssignment, err)
	}
	return err
}
