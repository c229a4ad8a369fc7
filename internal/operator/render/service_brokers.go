package render

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// brokersService renders the headless Service that gives each broker its own host name, which the
// broker advertises to clients. The host name resolves even while the broker is not ready, because
// other brokers and the operator connect to the broker before clients do.
func brokersService(cluster *v1alpha1.LogCluster) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metadata(cluster, HeadlessName(cluster.Name)),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 selector(cluster),
			Ports: append(internalPorts(cluster),
				servicePort(httpPortName(cluster), portHTTP)),
		},
	}
}

// servicePort returns a Service port that forwards to the container port with the same name.
func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, Protocol: corev1.ProtocolTCP,
		TargetPort: intstr.FromString(name)}
}
