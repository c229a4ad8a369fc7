package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// brokersService gives each broker its own host name, which is what the brokers tell clients. A
// broker that is not ready yet has its name all the same: brokers and the operator reach it before
// clients may.
func brokersService(cluster *v1alpha1.LogCluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metadata(cluster, headlessName(cluster.Name)),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 selector(cluster),
			Ports: []corev1.ServicePort{
				servicePort(portNameKafka, portKafka(cluster)),
				servicePort(portNameHTTP, portHTTP),
			},
		},
	}
}

// servicePort leads to the container's port of the same name, so it does not matter which number
// that has.
func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, Protocol: corev1.ProtocolTCP,
		TargetPort: intstr.FromString(name)}
}
