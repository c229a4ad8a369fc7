package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Settings are what the operator decides and a LogCluster does not specify.
type Settings struct {
	Image string // the operator's own image, the default of spec.image
	// Brokers is how many brokers run: more than spec.brokers while brokers that are to be removed
	// hold replicas. The minimum is spec.brokers.
	Brokers int32
	// Held is how many brokers, from ordinal 0, keep their present template; see
	// internal/operator/rollout.
	Held int32
}

// running returns how many brokers a cluster runs.
func (s Settings) running(cluster *v1alpha1.LogCluster) int32 {
	return max(s.Brokers, cluster.Spec.Brokers)
}

// Cluster returns the objects of a LogCluster in the order in which they must be applied:
// ServiceAccount, Role, RoleBinding, headless Service, bootstrap Service, PodDisruptionBudget,
// StatefulSet. The StatefulSet is last, because its pods need the others. The caller owns the
// objects; cluster is not changed.
func Cluster(cluster *v1alpha1.LogCluster, settings Settings) []client.Object {
	return []client.Object{
		serviceAccount(cluster),
		role(cluster, settings),
		roleBinding(cluster),
		brokersService(cluster),
		bootstrapService(cluster),
		podDisruptionBudget(cluster),
		statefulSet(cluster, settings),
	}
}
