package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// serviceAccount is who the brokers are to the API server. Its token is mounted by the pod that
// asks for it, not by any pod that happens to name the account.
func serviceAccount(cluster *v1alpha1.LogCluster) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   metadata(cluster, BrokersName(cluster.Name)),
		AutomountServiceAccountToken: new(false),
	}
}
