package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Settings are what the operator knows and a LogCluster leaves out.
type Settings struct {
	Image string // the operator's own, used when spec.image is empty
	// Brokers is how many run: more than spec.brokers while some that are to go hold replicas. 0,
	// or less than spec.brokers: as many as that.
	Brokers int32
	// Held is how many brokers, by ordinal, keep their template when it changes: see
	// internal/operator/rollout.
	Held int32
}

// running is how many brokers a cluster runs.
func (s Settings) running(cluster *v1alpha1.LogCluster) int32 {
	return max(s.Brokers, cluster.Spec.Brokers)
}

// Cluster returns the objects that make a LogCluster run, in the order they are to be applied:
// ServiceAccount, Role, RoleBinding, headless Service, bootstrap Service, PodDisruptionBudget,
// StatefulSet. The StatefulSet comes last: its pods find their account, rights and names there. The
// objects are the caller's own; cluster is not changed.
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
