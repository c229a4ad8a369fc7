package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// bootstrapService renders the Service with the clients' bootstrap address. It forwards a
// connection to any ready broker.
func bootstrapService(cluster *v1alpha1.LogCluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metadata(cluster, bootstrapName(cluster.Name)),
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeClusterIP,
			Selector: selector(cluster),
			Ports:    internalPorts(cluster),
		},
	}
}
