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

// Shared holds parts of the status of LogClusters that other controllers than the writer of the
// status decide: conditions, the state of moves of replicas, lost volumes, and the next expiry of a
// certificate. A status has one writer, as two writers of one list of conditions would overwrite
// each other's. After a restart of the operator it is empty; the conditions in the status remain
// until they are set again. The zero value is not usable.
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

// Removal is the obstacle to the removal of brokers, whose replicas then stay: the reason and the
// message of condition Scaled. Both are "" if there is none.
type Removal struct{ Reason, Message string }

// NewShared returns an empty set of conditions.
func NewShared() *Shared {
	s := &Shared{changes: make(chan event.GenericEvent)}
	s.mu.conditions = map[types.NamespacedName]map[string]metav1.Condition{}
	s.mu.rebalances = map[types.NamespacedName]*v1alpha1.RebalanceStatus{}
	s.mu.volumes = map[types.NamespacedName][]v1alpha1.LostVolume{}
	s.mu.expiries = map[types.NamespacedName]*v1alpha1.CertificateExpiry{}
	s.mu.removals = map[types.NamespacedName]Removal{}
	return s
}

// Changes delivers each LogCluster whose conditions have changed.
func (s *Shared) Changes() <-chan event.GenericEvent { return s.changes }

// Set sets a condition that was decided with the generation of cluster, and notifies the writer of
// the status if it differs from the last one. It returns an error only if ctx ends.
func (s *Shared) Set(ctx context.Context, cluster *v1alpha1.LogCluster,
	condition metav1.Condition) error {
	condition.ObservedGeneration = cluster.Generation
	key := types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name}
	if !s.store(key, condition) {
		return nil
	}
	return s.notify(ctx, cluster)
}

// Remove removes a condition from the status, and notifies the writer of the status unless it was
// removed before. It returns an error only if ctx ends.
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

// SetRebalance sets the state of moves of replicas, which must not be changed any more, and
// notifies the writer of the status if it differs from the last one. It returns an error only if
// ctx ends.
func (s *Shared) SetRebalance(ctx context.Context, cluster *v1alpha1.LogCluster,
	status *v1alpha1.RebalanceStatus) error {
	return put(ctx, s, s.mu.rebalances, cluster, status)
}

// put sets a value of a LogCluster, and notifies the writer of the status if it differs from the
// last one. It returns an error only if ctx ends.
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

// Rebalance returns the state of moves of replicas; nil if it is not known yet.
func (s *Shared) Rebalance(cluster types.NamespacedName) *v1alpha1.RebalanceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.rebalances[cluster]
}

// SetLostVolumes sets the lost volumes, which must not be changed any more, and notifies the writer
// of the status if they differ from the last ones. It returns an error only if ctx ends.
func (s *Shared) SetLostVolumes(ctx context.Context, cluster *v1alpha1.LogCluster,
	lost []v1alpha1.LostVolume) error {
	return put(ctx, s, s.mu.volumes, cluster, lost)
}

// SetRemoval sets the obstacle to the removal of brokers, and notifies the writer of the status if
// it has changed. It returns an error only if ctx ends.
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

// SetExpiry sets the certificate that expires first, nil if there is none, and notifies the writer
// of the status if it differs from the last one. It returns an error only if ctx ends.
func (s *Shared) SetExpiry(ctx context.Context, cluster *v1alpha1.LogCluster,
	next *v1alpha1.CertificateExpiry) error {
	return put(ctx, s, s.mu.expiries, cluster, next)
}

// Expiry returns the certificate that expires first, nil if there is none; known is false if it is
// not known yet.
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

// Get returns the conditions of a LogCluster, sorted by type. Those without a status are to be
// removed.
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

// Forget removes the conditions of a deleted LogCluster.
func (s *Shared) Forget(cluster types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conditions, cluster)
	delete(s.mu.rebalances, cluster)
	delete(s.mu.volumes, cluster)
	delete(s.mu.expiries, cluster)
	delete(s.mu.removals, cluster)
}
