package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// podDisruptionBudget lets a drain take one broker at a time, however many there are. It counts
// those that may be away, not those that must stay: with one broker, a minimum of one would hold up
// every drain for ever.
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
