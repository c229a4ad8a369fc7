package logcluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/internal/operator/render"
)

// scope is the input of a LogCluster's reconciliation. gather reads it from the cache. The objects
// must not be changed.
type scope struct {
	cluster    *v1alpha1.LogCluster
	brokers    *appsv1.StatefulSet // zero value if it does not exist yet
	topics     []v1alpha1.Topic
	partitions []v1alpha1.Partition
	pods       []corev1.Pod

	// Only StatusReconciler sets these fields.
	ready     int32   // brokers whose pod is ready and whose Lease is valid
	notLeased []int32 // brokers whose pod is ready and whose Lease is not valid, sorted
}

// gather reads the scope of a LogCluster.
func gather(ctx context.Context, reader client.Reader,
	cluster *v1alpha1.LogCluster) (*scope, error) {
	s := &scope{cluster: cluster, brokers: &appsv1.StatefulSet{}}
	statefulSet := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := reader.Get(ctx, statefulSet, s.brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	}
	topics, partitions := &v1alpha1.TopicList{}, &v1alpha1.PartitionList{}
	pods := &corev1.PodList{}
	// The results are not changed, so the cache need not copy them.
	ofCluster := []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := reader.List(ctx, topics, ofCluster...); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if err := reader.List(ctx, partitions, ofCluster...); err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	if err := reader.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the brokers' pods: %w", err)
	}
	s.topics, s.partitions, s.pods = topics.Items, partitions.Items, pods.Items
	return s, nil
}

// countPartitions counts the partitions of existing Topics. It ignores retained Partitions, whose
// Topic was deleted or has fewer partitions, because they do not serve clients.
func (s *scope) countPartitions() (all, underReplicated int32) {
	sizes := s.topicSizes()
	for i := range s.partitions {
		partition := &s.partitions[i]
		if partition.Spec.Index >= sizes[partition.Spec.Topic] {
			continue
		}
		all++
		if partition.UnderReplicated() {
			underReplicated++
		}
	}
	return all, underReplicated
}

// topicSizes returns the number of partitions of each Topic, by name.
func (s *scope) topicSizes() map[string]int32 {
	sizes := map[string]int32{}
	for i := range s.topics {
		sizes[s.topics[i].Name] = s.topics[i].Spec.Partitions
	}
	return sizes
}
