package conditions

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Shared contains those parts of the LogClusters' statuses that are not decided by the controller
// that writes the statuses: conditions, the state of replica moves, lost volumes, obstacles to the
// removal of brokers, and the next expiry of a certificate. Only one controller writes a status,
// because two writers of one list of conditions would overwrite each other's conditions. After a
// restart of the operator, Shared is empty; the conditions in the status remain until they are set
// again. The zero value is not usable.
type Shared struct {
	changes chan event.GenericEvent

	mu struct {
		sync.Mutex
		conditions map[types.NamespacedName]map[string]metav1.Condition // by type
		rebalances map[types.NamespacedName]*v1alpha1.RebalanceStatus
		volumes    map[types.NamespacedName][]v1alpha1.LostVolume
		expiries   map[types.NamespacedName]*v1alpha1.CertificateExpiry
		removals   map[types.NamespacedName]Removal
	}
}

// Removal is the obstacle to the removal of brokers: the reason and the message of condition
// Scaled. While the obstacle exists, the brokers' replicas stay. Both fields are "" if there is no
// obstacle.
type Removal struct{ Reason, Message string }

// NewShared returns an empty Shared.
func NewShared() *Shared {
	s := &Shared{changes: make(chan event.GenericEvent)}
	s.mu.conditions = map[types.NamespacedName]map[string]metav1.Condition{}
	s.mu.rebalances = map[types.NamespacedName]*v1alpha1.RebalanceStatus{}
	s.mu.volumes = map[types.NamespacedName][]v1alpha1.LostVolume{}
	s.mu.expiries = map[types.NamespacedName]*v1alpha1.CertificateExpiry{}
	s.mu.removals = map[types.NamespacedName]Removal{}
	return s
}

// Changes delivers each LogCluster with changed values.
func (s *Shared) Changes() <-chan event.GenericEvent { return s.changes }

// Set sets a condition. The condition applies to the generation of cluster. If the condition
// differs from the last one, Set notifies the writer of the status. It returns an error only if ctx
// ends.
func (s *Shared) Set(ctx context.Context, cluster *v1alpha1.LogCluster,
	condition metav1.Condition) error {
	condition.ObservedGeneration = cluster.Generation
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if !s.store(key, condition) {
		return nil
	}
	return s.notify(ctx, cluster)
}

// Remove removes a condition from the status. Unless the condition was removed before, Remove
// notifies the writer of the status. It returns an error only if ctx ends.
func (s *Shared) Remove(ctx context.Context, cluster *v1alpha1.LogCluster, kind string) error {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if !s.store(key, metav1.Condition{Type: kind}) {
		return nil
	}
	return s.notify(ctx, cluster)
}

func (s *Shared) notify(ctx context.Context, cluster *v1alpha1.LogCluster) error {
	select {
	case s.changes <- event.GenericEvent{Object: cluster}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SetRebalance sets the state of replica moves, which the caller must not change afterwards. If the
// state differs from the last one, SetRebalance notifies the writer of the status. It returns an
// error only if ctx ends.
func (s *Shared) SetRebalance(ctx context.Context, cluster *v1alpha1.LogCluster,
	status *v1alpha1.RebalanceStatus) error {
	return put(ctx, s, s.mu.rebalances, cluster, status)
}

// put sets a value of a LogCluster. If the value differs from the last one, put notifies the writer
// of the status. It returns an error only if ctx ends.
func put[T any](ctx context.Context, s *Shared, values map[types.NamespacedName]T,
	cluster *v1alpha1.LogCluster, value T) error {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	s.mu.Lock()
	last, known := values[key]
	values[key] = value
	s.mu.Unlock()
	if known && equality.Semantic.DeepEqual(last, value) {
		return nil
	}
	return s.notify(ctx, cluster)
}

// Rebalance returns the state of replica moves, or nil if it is not known yet.
func (s *Shared) Rebalance(cluster types.NamespacedName) *v1alpha1.RebalanceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.rebalances[cluster]
}

// SetLostVolumes sets the lost volumes, which the caller must not change afterwards. If they differ
// from the last ones, SetLostVolumes notifies the writer of the status. It returns an error only if
// ctx ends.
func (s *Shared) SetLostVolumes(ctx context.Context, cluster *v1alpha1.LogCluster,
	lost []v1alpha1.LostVolume) error {
	return put(ctx, s, s.mu.volumes, cluster, lost)
}

// SetRemoval sets the obstacle to the removal of brokers. If the obstacle has changed, SetRemoval
// notifies the writer of the status. It returns an error only if ctx ends.
func (s *Shared) SetRemoval(ctx context.Context, cluster *v1alpha1.LogCluster,
	removal Removal) error {
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if s.Removal(key) == removal {
		return nil
	}
	return put(ctx, s, s.mu.removals, cluster, removal)
}

// Removal returns the obstacle to the removal of brokers.
func (s *Shared) Removal(cluster types.NamespacedName) Removal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.removals[cluster]
}

// SetExpiry sets the certificate that expires first, or nil if there is none. If it differs from
// the last one, SetExpiry notifies the writer of the status. It returns an error only if ctx ends.
func (s *Shared) SetExpiry(ctx context.Context, cluster *v1alpha1.LogCluster,
	next *v1alpha1.CertificateExpiry) error {
	return put(ctx, s, s.mu.expiries, cluster, next)
}

// Expiry returns the certificate that expires first, or nil if there is none. known is false if it
// is not known yet.
func (s *Shared) Expiry(cluster types.NamespacedName) (next *v1alpha1.CertificateExpiry,
	known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, known = s.mu.expiries[cluster]
	return next, known
}

// LostVolumes returns the lost volumes; known is false if they are not known yet.
func (s *Shared) LostVolumes(cluster types.NamespacedName) (lost []v1alpha1.LostVolume,
	known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, known = s.mu.volumes[cluster]
	return lost, known
}

func (s *Shared) store(key types.NamespacedName, condition metav1.Condition) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	conditions := s.mu.conditions[key]
	if conditions == nil {
		conditions = map[string]metav1.Condition{}
		s.mu.conditions[key] = conditions
	}
	if conditions[condition.Type] == condition {
		return false
	}
	conditions[condition.Type] = condition
	return true
}

// Get returns a LogCluster's conditions, sorted by type. A condition without a status must be
// removed from the LogCluster's status.
func (s *Shared) Get(cluster types.NamespacedName) []metav1.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.mu.conditions[cluster]
	var conditions []metav1.Condition
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		conditions = append(conditions, all[kind])
	}
	return conditions
}

// Forget removes all values of a deleted LogCluster.
func (s *Shared) Forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conditions, cluster)
	delete(s.mu.rebalances, cluster)
	delete(s.mu.volumes, cluster)
	delete(s.mu.expiries, cluster)
	delete(s.mu.removals, cluster)
}
