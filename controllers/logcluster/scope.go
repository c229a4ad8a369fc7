package logcluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/operator/render"
)

// scope is the input of a LogCluster's reconciliation. gather reads it from the cache. The objects
// must not be changed.
type scope struct {
	cluster *v1alpha1.LogCluster
	brokers *appsv1.StatefulSet // zero value if it does not exist yet
	topics  []v1alpha1.Topic
	sets    *sets.Cluster
	pods    []corev1.Pod
	leases  []coordinationv1.Lease
	// scramShards is the number of Secrets with SCRAM verifiers.
	scramShards int

	// Only StatusReconciler sets these fields.
	ready     int32   // brokers whose pod is ready and whose Lease is valid
	notLeased []int32 // brokers whose pod is ready and whose Lease is not valid, sorted
}

// gather reads the scope of a LogCluster.
func gather(ctx context.Context, reader client.Reader, partitions *sets.Reader,
	cluster *v1alpha1.LogCluster) (*scope, error) {
	s := &scope{cluster: cluster, brokers: &appsv1.StatefulSet{}}
	statefulSet := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := reader.Get(ctx, statefulSet, s.brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	}
	topics, pods := &v1alpha1.TopicList{}, &corev1.PodList{}
	// The results are not changed, so the cache need not copy them.
	ofCluster := []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := reader.List(ctx, topics, ofCluster...); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	var err error
	if s.sets, err = partitions.OfCluster(ctx, cluster.Namespace, cluster.Name); err != nil {
		return nil, err
	}
	if err := reader.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the brokers' pods: %w", err)
	}
	for {
		shard := types.NamespacedName{Namespace: cluster.Namespace,
			Name: v1alpha1.ScramSecretName(cluster.Name, s.scramShards)}
		err := reader.Get(ctx, shard, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("get secret %s: %w", shard.Name, err)
		}
		s.scramShards++
	}
	leases := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, leases, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	s.leases = leases.Items
	s.topics, s.pods = topics.Items, pods.Items
	return s, nil
}

// countPartitions counts the partitions of existing Topics. It ignores retained partitions, whose
// Topic was deleted or has fewer partitions, because they do not serve clients.
func (s *scope) countPartitions() (all, underReplicated int32) {
	tags := s.topicTags()
	for key, entry := range s.sets.All() {
		if !entry.BelongsTo(tags[key.Topic]) {
			continue
		}
		all++
		if entry.UnderReplicated() {
			underReplicated++
		}
	}
	return all, underReplicated
}

// topicTags returns the tag of each Topic's id, by name.
func (s *scope) topicTags() map[string]string {
	tags := make(map[string]string, len(s.topics))
	for i := range s.topics {
		tags[s.topics[i].Name] = sets.Tag(s.topics[i].UID)
	}
	return tags
}
