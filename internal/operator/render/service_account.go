package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// serviceAccount renders the ServiceAccount with which brokers authenticate to the API server.
// Kubernetes mounts its token only into pods that request it.
func serviceAccount(cluster *v1alpha1.LogCluster) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   metadata(cluster, BrokersName(cluster.Name)),
		AutomountServiceAccountToken: new(false),
	}
}
