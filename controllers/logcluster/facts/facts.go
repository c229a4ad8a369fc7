package facts

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
)

// Facts is the input of a LogCluster's reconciliation. Gather reads it from the cache. It is
// immutable: the caller must change neither its fields nor the objects.
type Facts struct {
	Cluster *v1alpha1.LogCluster
	Brokers *appsv1.StatefulSet // zero value if no StatefulSet exists yet
	Topics  []v1alpha1.Topic
	Sets    *sets.Cluster

	Pods   []corev1.Pod
	Leases []coordinationv1.Lease
	// ScramShards is the number of Secrets with SCRAM verifiers.
	ScramShards int
	Up          map[int32]bool // ids of brokers that have a pod and renew their Lease
	// StaleFor is the longest time for which clients may still use the address of any broker's
	// previous pod (placement.BrokerState.AddressStaleFor).
	StaleFor time.Duration

	partitions *walk // result of walked; nil before its first call
}

// Gatherer reads Facts.
type Gatherer struct {
	client.Reader
	Sets    *sets.Reader
	Brokers *brokerstate.Tracker
}

// Gather reads the Facts of a LogCluster.
func (g Gatherer) Gather(ctx context.Context, cluster *v1alpha1.LogCluster) (*Facts, error) {
	s := &Facts{Cluster: cluster, Brokers: &appsv1.StatefulSet{}}
	statefulSet := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := g.Get(ctx, statefulSet, s.Brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	}
	topics := &v1alpha1.TopicList{}
	// The caller does not change the results, so the cache does not have to copy them.
	ofCluster := []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := g.List(ctx, topics, ofCluster...); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	s.Topics = topics.Items
	pods := &corev1.PodList{}
	if err := g.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the brokers' pods: %w", err)
	}
	s.Pods = pods.Items
	var err error
	if s.Sets, err = g.Sets.OfCluster(ctx, cluster.Namespace, cluster.Name); err != nil {
		return nil, err
	}
	if s.ScramShards, err = g.countScramShards(ctx, cluster); err != nil {
		return nil, err
	}
	leases := &coordinationv1.LeaseList{}
	if err := g.List(ctx, leases, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	s.Leases = leases.Items
	return s, g.observeBrokers(ctx, s)
}

// countScramShards returns the number of Secrets with SCRAM verifiers.
func (g Gatherer) countScramShards(ctx context.Context,
	cluster *v1alpha1.LogCluster) (int, error) {
	for count := 0; ; count++ {
		shard := types.NamespacedName{Namespace: cluster.Namespace,
			Name: v1alpha1.ScramSecretName(cluster.Name, count)}
		secret := &corev1.Secret{}
		err := g.Get(ctx, shard, secret)
		// If the LogCluster does not own the Secret, brokers must not read its verifiers.
		if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(secret, cluster) {
			return count, nil
		} else if err != nil {
			return 0, fmt.Errorf("get secret %s: %w", shard.Name, err)
		}
	}
}

// observeBrokers reads which brokers are up, and whether their addresses are stale. A broker with a
// ready pod can be down: when a node loses power, Kubernetes reports the node's pods as ready for
// most of a minute. The Leases of the brokers in these pods, however, expire after seconds, and
// other brokers are elected.
func (g Gatherer) observeBrokers(ctx context.Context, s *Facts) error {
	s.Up = map[int32]bool{}
	for i := range s.Pods {
		// A pod and its broker's Lease have the same name.
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.Pods[i].Name)
		if !ok {
			continue
		}
		state, _, err := g.Brokers.State(ctx, client.ObjectKeyFromObject(&s.Pods[i]))
		if err != nil {
			return err
		}
		s.Up[id] = state.Liveness != placement.Down
		s.StaleFor = max(s.StaleFor, state.AddressStaleFor)
	}
	return nil
}
