package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// podDisruptionBudget allows the eviction of one broker at a time. It sets maxUnavailable and not
// minAvailable: with a single broker, minAvailable 1 would block every node drain.
func podDisruptionBudget(cluster *v1alpha1.LogCluster) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: selector(cluster)},
		},
	}
}
