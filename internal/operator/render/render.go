package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Settings are inputs of the rendering that the operator determines and that are not in the
// LogCluster.
type Settings struct {
	Image string // operator's own image, the default of spec.image
	// Brokers is the number of running brokers. It exceeds spec.brokers while brokers that are to be
	// removed still have replicas. If it is smaller than spec.brokers, spec.brokers applies.
	Brokers int32
	// RestartRequest is an annotation of the pod template. A new value requests a restart of all
	// brokers.
	RestartRequest string
	// NoEvictions forbids the eviction of pods. It is set while partitions are under-replicated, or
	// while clients may still use the address of a broker's previous pod.
	NoEvictions bool
	// PartitionSets is the LogCluster's number of PartitionSets. If it is 0, v1alpha1.PartitionSets
	// applies.
	PartitionSets int32
	// Namespace is the operator's own namespace, or "" if it is unknown.
	Namespace string
	// ScramShards is the number of Secrets with SCRAM verifiers.
	ScramShards int
}

// running returns the number of running brokers.
func (s Settings) running(cluster *v1alpha1.LogCluster) int32 {
	return max(s.Brokers, cluster.Spec.Brokers)
}

// Cluster returns a LogCluster's objects in the order in which they must be applied:
// ServiceAccount, Role, RoleBinding, NetworkPolicy, headless Service, bootstrap Service, Services
// of listeners, PodDisruptionBudget, StatefulSet. The StatefulSet is last, because its pods need
// the other objects. The caller may modify the objects; Cluster does not change cluster.
func Cluster(cluster *v1alpha1.LogCluster, settings Settings) []client.Object {
	objects := []client.Object{
		serviceAccount(cluster),
		role(cluster, settings),
		roleBinding(cluster),
		networkPolicy(cluster, settings),
		brokersService(cluster),
		bootstrapService(cluster),
	}
	objects = append(objects, listenerServices(cluster, settings)...)
	return append(objects, PodDisruptionBudget(cluster, settings),
		statefulSet(cluster, settings))
}
