package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// patchAttempts is the maximum number of attempts to write a change while other writers cause
// conflicts.
const patchAttempts = 4

// AlterTopic implements metadata.Alterer. It patches the Topic resource, even if the resource was
// created from a manifest and not through Kafka. If a manifest with another value is applied later,
// it overwrites the change.
func (s *Store) AlterTopic(ctx context.Context, change metadata.TopicChange) error {
	return s.patchTopic(ctx, change.Name, change.Validate,
		func(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
			return metadata.AlteredTopic(topic, change, cluster)
		})
}

// AlterCluster implements metadata.Alterer. It patches the LogCluster; the API server validates the
// result. If a manifest with another value is applied later, it overwrites the change.
func (s *Store) AlterCluster(ctx context.Context, change metadata.ClusterChange) error {
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	if all.cluster == nil {
		return s.noCluster()
	}
	var options []client.PatchOption
	if change.Validate {
		options = append(options, client.DryRunAll)
	}
	topics := slices.Collect(maps.Values(all.byKafkaName()))
	cluster := all.cluster.DeepCopy() // copied, because cached objects are read-only
	err = s.patch(ctx, cluster, func() (client.Object, error) {
		altered, err := metadata.AlteredCluster(cluster, change)
		if err != nil {
			return nil, err
		}
		return altered, metadata.CheckTopics(topics, cluster, altered)
	}, options...)
	switch {
	case apierrors.IsNotFound(err):
		return s.noCluster()
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	case err != nil:
		return fmt.Errorf("change LogCluster %s: %w", s.opts.Cluster, err)
	}
	return nil
}

func (s *Store) noCluster() error {
	return fmt.Errorf("%w: LogCluster %s does not exist", metadata.ErrUnavailable, s.opts.Cluster)
}

// CreatePartitions implements metadata.Alterer. It raises spec.partitions, and the operator then
// creates the partitions. The number and an assignment are written together, in one
// compare-and-swap, so that the operator cannot place a partition for which the client has assigned
// replicas.
func (s *Store) CreatePartitions(ctx context.Context, partitions metadata.NewPartitions) error {
	return s.patchTopic(ctx, partitions.Name, partitions.Validate,
		func(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
			return metadata.GrownTopic(topic, partitions, cluster, s.brokers(cluster))
		})
}

// patchTopic changes a Topic by compare-and-swap. alter receives the version of the Topic that the
// write replaces.
func (s *Store) patchTopic(ctx context.Context, name string, validateOnly bool,
	alter func(*v1alpha1.Topic, *v1alpha1.LogCluster) (*v1alpha1.Topic, error)) error {
	all, err := s.resources(ctx)
	if err != nil {
		return err
	}
	if all.cluster == nil {
		return s.noCluster()
	}
	topic, err := s.findTopic(ctx, name)
	if err != nil {
		return err
	}
	var options []client.PatchOption
	if validateOnly {
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

// patch writes the changed copy of a resource, which change returns, by compare-and-swap. After a
// conflict it reads the resource and calls change again.
func (s *Store) patch(ctx context.Context, resource client.Object,
	change func() (client.Object, error), options ...client.PatchOption) error {
	var err error
	for range patchAttempts {
		changed, changeErr := change()
		if changeErr != nil {
			return changeErr
		}
		//nolint:forcetypeassert // a deep copy has the same type
		before := resource.DeepCopyObject().(client.Object)
		err = s.client.Patch(ctx, changed,
			client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
		if !apierrors.IsConflict(err) {
			return writeError(err)
		}
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(resource), resource); err != nil {
			return writeError(err)
		}
	}
	return writeError(err)
}
