package logcluster

import (
	"context"
	"fmt"
	"slices"
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
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/index"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/operator/claims"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/placement"
)

// scope is the input of a LogCluster's reconciliation. gather reads it from the cache. The objects
// must not be changed.
type scope struct {
	cluster *v1alpha1.LogCluster
	brokers *appsv1.StatefulSet // zero value if it does not exist yet
	topics  []v1alpha1.Topic
	sets    *sets.Cluster
	// applied is the StatefulSet after it was applied, of which the cache may contain an earlier
	// version; nil if it was not applied.
	applied *appsv1.StatefulSet
	// replaces is what the replacement of the StatefulSet waits for; "" if it is not being replaced.
	replaces string
	// restartedFor is the restart request in the pod template of the StatefulSet.
	restartedFor string
	volumes      claims.State
	removal      conditions.Removal // set only for the status
	replaced     map[int32]bool     // see rollout.Volumes

	pods   []corev1.Pod
	leases []coordinationv1.Lease
	// scramShards is the number of Secrets with SCRAM verifiers.
	scramShards int
	up          map[int32]bool // brokers that have a pod and renew their Lease
	// staleFor is the longest time for which clients may still use the address of a broker's
	// previous pod (placement.BrokerState.AddressStaleFor).
	staleFor time.Duration
}

// gatherer reads scopes.
type gatherer struct {
	client.Reader
	sets    *sets.Reader
	brokers *brokerstate.Tracker
}

// gatherPartitions reads the StatefulSet, the Topics and the partitions of a LogCluster. The rest
// of the scope remains empty.
func (g gatherer) gatherPartitions(ctx context.Context,
	cluster *v1alpha1.LogCluster) (*scope, error) {
	s := &scope{cluster: cluster, brokers: &appsv1.StatefulSet{}}
	statefulSet := types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}
	if err := g.Get(ctx, statefulSet, s.brokers); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get the brokers' StatefulSet: %w", err)
	}
	topics := &v1alpha1.TopicList{}
	// The results are not changed, so the cache need not copy them.
	ofCluster := []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingFields{index.ByCluster: cluster.Name}, client.UnsafeDisableDeepCopy}
	if err := g.List(ctx, topics, ofCluster...); err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	s.topics = topics.Items
	pods := &corev1.PodList{}
	if err := g.List(ctx, pods, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}); err != nil {
		return nil, fmt.Errorf("list the brokers' pods: %w", err)
	}
	s.pods = pods.Items
	var err error
	if s.sets, err = g.sets.OfCluster(ctx, cluster.Namespace, cluster.Name); err != nil {
		return nil, err
	}
	return s, g.observeBrokers(ctx, s)
}

// gather reads the scope of a LogCluster.
func (g gatherer) gather(ctx context.Context, cluster *v1alpha1.LogCluster) (*scope, error) {
	s, err := g.gatherPartitions(ctx, cluster)
	if err != nil {
		return nil, err
	}
	for {
		shard := types.NamespacedName{Namespace: cluster.Namespace,
			Name: v1alpha1.ScramSecretName(cluster.Name, s.scramShards)}
		secret := &corev1.Secret{}
		err := g.Get(ctx, shard, secret)
		// Brokers must not read the verifiers in a Secret of others.
		if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(secret, cluster) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("get secret %s: %w", shard.Name, err)
		}
		s.scramShards++
	}
	leases := &coordinationv1.LeaseList{}
	if err := g.List(ctx, leases, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	s.leases = leases.Items
	return s, nil
}

// observeBrokers reads which brokers are up, and whether their addresses are stale. A broker whose
// pod is ready may be down: when a node loses power, Kubernetes reports the node's pods as ready
// for most of a minute, but the Leases of their brokers expire after seconds, and other brokers are
// elected.
func (g gatherer) observeBrokers(ctx context.Context, s *scope) error {
	s.up = map[int32]bool{}
	for i := range s.pods {
		// A pod has the name of its Lease.
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.pods[i].Name)
		if !ok {
			continue
		}
		state, _, err := g.brokers.State(ctx, client.ObjectKeyFromObject(&s.pods[i]))
		if err != nil {
			return err
		}
		s.up[id] = state.Liveness != placement.Down
		s.staleFor = max(s.staleFor, state.AddressStaleFor)
	}
	return nil
}

// readyBrokers returns the number of brokers whose pod is ready and that are up, and the brokers
// whose pod is ready although they are not up, sorted.
func (s *scope) readyBrokers() (ready int32, notLeased []int32) {
	for i := range s.pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.pods[i].Name)
		switch {
		case !ok || !podReady(&s.pods[i]):
		case s.up[id]:
			ready++
		default:
			notLeased = append(notLeased, id)
		}
	}
	slices.Sort(notLeased)
	return ready, notLeased
}

// topicTags returns the tag of each Topic's id, by name.
func (s *scope) topicTags() map[string]string {
	tags := make(map[string]string, len(s.topics))
	for i := range s.topics {
		tags[s.topics[i].Name] = sets.Tag(s.topics[i].UID)
	}
	return tags
}
