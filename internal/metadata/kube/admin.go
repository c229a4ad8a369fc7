package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// CreateTopic implements metadata.Admin. It creates a Topic resource. The returned topic has
// neither replicas nor leaders yet; the operator assigns them, or takes them from
// spec.initialReplicas.
func (s *Store) CreateTopic(ctx context.Context, t metadata.NewTopic) (*metadata.Topic, error) {
	all, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	if all.cluster == nil {
		return nil, s.noCluster()
	}
	existing := all.byKafkaName()
	if existing[t.Name] != nil {
		return nil, fmt.Errorf("%w: %q", metadata.ErrTopicExists, t.Name)
	}
	if err := metadata.CheckCollision(t.Name, maps.Keys(existing)); err != nil {
		return nil, err
	}
	if err := metadata.CheckAssignment(t.Assignment, 0, int(t.Replicas),
		s.brokers(all.cluster)); err != nil {
		return nil, err
	}
	resource, err := metadata.TopicResource(metadata.WithInternalDefaults(t,
		all.cluster.Spec.Brokers, all.cluster), s.opts.Cluster, all.cluster)
	if err != nil {
		return nil, err
	}
	if requested := metadata.Replicas(resource.Spec.TopicSettings,
		all.cluster); requested > int(all.cluster.Spec.Brokers) {
		return nil, fmt.Errorf("%w: %d replicas requested, and LogCluster %s has %d brokers",
			metadata.ErrInvalidReplication, requested, s.opts.Cluster,
			all.cluster.Spec.Brokers)
	}
	resource.Namespace = s.opts.Namespace
	resource.Labels = map[string]string{v1alpha1.LabelCluster: s.opts.Cluster}
	var options []client.CreateOption
	if t.Validate {
		options = append(options, client.DryRunAll)
	}
	err = s.client.Create(ctx, resource, options...)
	other := &v1alpha1.Topic{}
	if apierrors.IsAlreadyExists(err) &&
		s.takenByOther(ctx, resource, other, &other.Spec.Cluster) {
		resource.Name = metadata.ResourceNameIn(s.opts.Cluster, t.Name)
		resource.Spec.TopicName = t.Name
		err = s.client.Create(ctx, resource, options...)
	}
	if err != nil {
		return nil, createError(t.Name, err)
	}
	return newTopic(resource, all.cluster, t.Validate)
}

// takenByOther reports whether a resource of another LogCluster already has the name of the given
// resource. It reads that resource into existing. cluster points to the field spec.cluster of
// existing.
func (s *Store) takenByOther(ctx context.Context, resource, existing client.Object,
	cluster *string) bool {
	err := s.client.Get(ctx, client.ObjectKeyFromObject(resource), existing)
	return err == nil && *cluster != s.opts.Cluster
}

// brokers returns the states of the cluster's brokers, which are used to validate an assignment.
func (s *Store) brokers(cluster *v1alpha1.LogCluster) metadata.Brokers {
	var alive map[int32]metadata.Broker
	if last := s.alive.Load(); last != nil {
		alive = *last
	}
	return metadata.Brokers{
		Exists: func(id int32) bool { return id >= 0 && id < cluster.Spec.Brokers },
		Up: func(id int32) bool {
			broker, up := alive[id]
			return up && !broker.Leaving
		},
	}
}

// createError converts a create request's error to an error of package metadata.
func createError(topic string, err error) error {
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %q: %w", metadata.ErrTopicExists, topic, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	default:
		return fmt.Errorf("create topic %q: %w", topic, writeError(err))
	}
}

// writeError converts a write request's error. If a quota, an admission policy or RBAC forbids the
// write, the result is ErrPolicy. "Not found" and "invalid" are returned unchanged, and the caller
// converts them. Any other error becomes ErrUnavailable.
func writeError(err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsInvalid(err):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w", metadata.ErrPolicy, err)
	default:
		return fmt.Errorf("%w: %w", metadata.ErrUnavailable, err)
	}
}

// newTopic converts a new Topic resource to a topic. If validateOnly is set, the topic has no id,
// because the uid from a dry run belongs to no resource.
func newTopic(resource *v1alpha1.Topic, cluster *v1alpha1.LogCluster,
	validateOnly bool) (*metadata.Topic, error) {
	topic, err := metadata.ResolveTopic(resource, cluster)
	if err != nil {
		return nil, err
	}
	if !validateOnly {
		if topic.ID, err = id(resource.UID); err != nil {
			return nil, err
		}
	}
	replicas := make([]int32, metadata.Replicas(resource.Spec.TopicSettings, cluster))
	for i := range replicas {
		replicas[i] = metadata.NoBroker // the operator has not assigned brokers yet
	}
	for index := range resource.Spec.Partitions {
		topic.Partitions = append(topic.Partitions,
			&metadata.Partition{Index: index, Replicas: replicas, Leader: metadata.NoBroker})
	}
	return topic, nil
}

// DeleteTopic implements metadata.Admin. It deletes the Topic resource, even if the resource was
// created from a manifest and not through Kafka.
func (s *Store) DeleteTopic(ctx context.Context, name string) error {
	topic, err := s.findTopic(ctx, name)
	if err != nil {
		return err
	}
	// The precondition prevents the deletion of another Topic that has been created with the same name
	// since the read.
	err = s.client.Delete(ctx, topic, client.Preconditions{UID: &topic.UID})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errors.Join(fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name), err)
	}
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, writeError(err))
	}
	return nil
}

// findTopic returns the Topic with the given Kafka name. If the cache does not contain the Topic,
// because the watch may not have delivered it yet, findTopic reads it from the API server by the
// resource names that CreateTopic uses.
func (s *Store) findTopic(ctx context.Context, name string) (*v1alpha1.Topic, error) {
	all, err := s.resources(ctx)
	if err != nil {
		return nil, err
	}
	if all.cluster != nil {
		if topic := all.byKafkaName()[name]; topic != nil {
			return topic.DeepCopy(), nil
		}
	}
	notFound := fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
	if metadata.CheckTopicName(name) != nil {
		return nil, notFound
	}
	for _, resource := range []string{metadata.ResourceName(name),
		metadata.ResourceNameIn(s.opts.Cluster, name)} {
		topic := &v1alpha1.Topic{}
		err = s.client.Get(ctx, client.ObjectKey{Namespace: s.opts.Namespace, Name: resource},
			topic)
		if err == nil && topic.KafkaName() == name && topic.Spec.Cluster == s.opts.Cluster {
			return topic, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("find topic %q: %w", name, writeError(err))
		}
	}
	return nil, notFound
}
