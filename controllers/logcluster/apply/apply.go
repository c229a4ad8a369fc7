package apply

import (
	"cmp"
	"time"

	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/memory"

	"context"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/owned"
	"heartwood.dev/heartwood/internal/operator/render"
)

// Applier applies the objects that run a LogCluster.
type Applier struct {
	client.Client
	Live     client.Reader // reader of the API server, without a cache
	Settings render.Settings
	Events   conditions.Recorder
	// ResizeWait is the time that a file system has to grow before its broker is restarted; 0:
	// DefaultResizeWait.
	ResizeWait time.Duration
}

func (a *Applier) applier() owned.Applier {
	return owned.Applier{Client: a.Client, Live: a.Live}
}

// Failed creates an event for an error.
func (a *Applier) Failed(s *facts.Facts, err error) {
	a.Events.Warning(s.Cluster, v1alpha1.EventApplyFailed, "Apply",
		"The operator failed to %v; it retries.", err)
}

// Budget applies the PodDisruptionBudget if it exists and its number of permitted evictions is
// wrong for the current state of the replicas. A pause or an invalid spec must not delay this: with
// an outdated budget, the drain of a node would evict a broker whose replicas are needed.
func (a *Applier) Budget(ctx context.Context, s *facts.Facts) error {
	budget, settings := &policyv1.PodDisruptionBudget{}, SettingsOf(s, a.Settings, "")
	key := types.NamespacedName{Namespace: s.Cluster.Namespace,
		Name: render.BrokersName(s.Cluster.Name)}
	if err := a.Get(ctx, key, budget); err != nil {
		return client.IgnoreNotFound(err) // All creates it
	}
	if allowed := budget.Spec.MaxUnavailable; allowed != nil &&
		allowed.IntVal == render.MaxUnavailable(settings) {
		return nil
	}
	return a.applier().Apply(ctx, s.Cluster, render.PodDisruptionBudget(s.Cluster, settings))
}

// All applies all objects in the order in which package render returns them. It stops at the first
// error, because later objects can depend on the failed one, for example, pods depend on their
// ServiceAccount. It creates an event for the error; the queue retries with backoff.
//
// restartedFor is the result of RestartedFor. All returns the applied StatefulSet. If the
// StatefulSet is being replaced, All also describes what the replacement waits for; otherwise this
// text is "".
func (a *Applier) All(ctx context.Context, s *facts.Facts, m *memory.Memory,
	restartedFor string) (applied *appsv1.StatefulSet, replaces string, err error) {
	rendered := render.Cluster(s.Cluster, SettingsOf(s, a.Settings, restartedFor))
	for _, object := range rendered {
		if brokers, ok := object.(*appsv1.StatefulSet); ok {
			if replaces, err = a.makeWay(ctx, s, m, brokers); err != nil {
				a.Failed(s, err)
				return nil, "", err
			} else if replaces != "" {
				break
			}
		}
		if err := a.applier().Apply(ctx, s.Cluster, object); err != nil {
			a.Failed(s, err)
			return nil, "", err
		}
		if brokers, ok := object.(*appsv1.StatefulSet); ok {
			applied = brokers
			m.Replacing = false
		}
	}
	return applied, replaces, a.pruneServices(ctx, s, rendered)
}

// SettingsOf returns the settings for package render. Only the StatefulSet needs restartedFor.
func SettingsOf(s *facts.Facts, base render.Settings, restartedFor string) render.Settings {
	base.Brokers, base.PartitionSets = s.Drain().Brokers, s.Sets.Count
	base.ScramShards = s.ScramShards
	// The pod template keeps the last requested restart, so removing the annotation restarts nothing.
	base.RestartRequest = cmp.Or(s.Cluster.Annotations[v1alpha1.AnnotationRestart], restartedFor)
	base.NoEvictions = s.Replication().UnderReplicated > 0 || s.StaleFor > 0
	return base
}
