package kube

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// CreateTopic implements metadata.Admin: it makes a Topic resource. The topic it returns has no
// leaders and no brokers yet; the operator places it.
func (s *Store) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	all, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	if all.cluster == nil {
		return nil, fmt.Errorf("%w: LogCluster %s is not there", metadata.ErrUnavailable,
			s.opts.Cluster)
	}
	if _, exists := all.named()[t.Name]; exists {
		return nil, fmt.Errorf("%w: %q", metadata.ErrTopicExists, t.Name)
	}
	resource, err := metadata.TopicResource(metadata.WithInternalDefaults(t,
		all.cluster.Spec.Brokers, all.cluster), s.opts.Cluster, all.cluster)
	if err != nil {
		return nil, err
	}
	if wanted := metadata.Replicas(resource.Spec.TopicSettings,
		all.cluster); wanted > int(all.cluster.Spec.Brokers) {
		return nil, fmt.Errorf("%w: %d replicas asked for, LogCluster %s has %d brokers",
			metadata.ErrInvalidReplication, wanted, s.opts.Cluster,
			all.cluster.Spec.Brokers)
	}
	resource.Namespace = s.opts.Namespace
	resource.Labels = map[string]string{v1alpha1.LabelCluster: s.opts.Cluster}
	var options []client.CreateOption
	if t.Validate {
		options = append(options, client.DryRunAll)
	}
	if err := s.client.Create(ctx, resource, options...); err != nil {
		return nil, createError(t.Name, err)
	}
	return created(resource, all.cluster, t.Validate)
}

// createError tells a resource that is there, and one that the CRD refuses, from what is not the
// resource's fault.
func createError(topic string, err error) error {
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %q: %w", metadata.ErrTopicExists, topic, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	default:
		return fmt.Errorf("make topic %q: %w", topic, refused(err))
	}
}

// refused says what it means that the API server has not made a change: somebody forbids it, such
// as a quota, an admission policy or RBAC, or it cannot be made now. A resource that is not there,
// or not valid, is for the caller to name.
func refused(err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", metadata.ErrPolicy, err)
	default:
		return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
	}
}

// created is the topic as its resource says it will be. onlyChecked: a dry run's uid is nobody's,
// so the id stays zero.
func created(resource *v1alpha1.Topic, cluster *v1alpha1.LogCluster,
	onlyChecked bool) (*metadata.Topic, error) {
	topic, err := metadata.ResolveTopic(resource, cluster)
	if err != nil {
		return nil, err
	}
	if !onlyChecked {
		if topic.ID, err = id(resource.UID); err != nil {
			return nil, err
		}
	}
	replicas := make([]int32, metadata.Replicas(resource.Spec.TopicSettings, cluster))
	for i := range replicas {
		replicas[i] = metadata.NoBroker // their number is known, not yet who they are
	}
	for index := range resource.Spec.Partitions {
		topic.Partitions = append(topic.Partitions,
			&metadata.Partition{Index: index, Replicas: replicas, Leader: metadata.NoBroker})
	}
	return topic, nil
}

// DeleteTopic implements metadata.Admin: it deletes the Topic resource, whoever made it.
func (s *Store) DeleteTopic(ctx context.Context, name string) error {
	topic, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	// Not another one that took its name meanwhile.
	err = s.client.Delete(ctx, topic, client.Preconditions{UID: &topic.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errors.Join(fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name), err)
	}
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, refused(err))
	}
	return nil
}

// find returns the Topic of a name. One that was made a moment ago may not have come by the watch
// yet; then it has the name we would have given it.
func (s *Store) find(ctx context.Context, name string) (*v1alpha1.Topic, error) {
	all, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	if all.cluster != nil {
		if topic := all.named()[name]; topic != nil {
			return topic.DeepCopy(), nil
		}
	}
	notFound := fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
	if metadata.CheckTopicName(name) != nil {
		return nil, notFound
	}
	topic := &v1alpha1.Topic{}
	err = s.client.Get(ctx, client.ObjectKey{Namespace: s.opts.Namespace,
		Name: metadata.ResourceName(name)}, topic)
	switch {
	case apierrors.IsNotFound(err),
		err == nil && (topic.KafkaName() != name || topic.Spec.Cluster != s.opts.Cluster):
		return nil, notFound
	case err != nil:
		return nil, fmt.Errorf("find topic %q: %w", name, refused(err))
	}
	return topic, nil
}
