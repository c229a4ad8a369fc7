package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// PodDisruptionBudget returns the brokers' budget. It allows the eviction of one broker at a time,
// and of none while partitions are under-replicated: a pod is ready before its replicas have caught
// up, so draining two nodes in succession would make both in-sync replicas unavailable. A pod that
// is not ready can always be evicted. The budget sets maxUnavailable instead of minAvailable: with
// a single broker, minAvailable 1 would block every node drain.
func PodDisruptionBudget(cluster *v1alpha1.LogCluster,
	settings Settings) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             new(intstr.FromInt32(MaxUnavailable(settings))),
			Selector:                   &metav1.LabelSelector{MatchLabels: selector(cluster)},
			UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow),
		},
	}
}

// MaxUnavailable returns the value of maxUnavailable in the brokers' PodDisruptionBudget.
func MaxUnavailable(settings Settings) int32 {
	if settings.NoEvictions {
		return 0
	}
	return 1
}
