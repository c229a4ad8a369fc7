package render

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// portHTTP serves metrics, health and the partition report of every broker. It is fixed: the
// operator asks there (HTTPAddress).
const portHTTP = 9644

// portKafkaDefault is the listener's port when the LogCluster names none; the CRD has the same
// default.
const portKafkaDefault = 9092

// Names of ports and of the volume.
const (
	portNameKafka = "kafka"
	portNameHTTP  = "http" // Prometheus scrapes the port of this name
	volumeData    = "data"
)

// BrokersName is the StatefulSet of the brokers, and their ServiceAccount, Role and RoleBinding.
// Pods are called after it, with the node id at the end.
func BrokersName(cluster string) string { return cluster + "-broker" }

// Bootstrap is the address that clients start from, host:port inside the Kubernetes cluster; it is
// what LogCluster.status.bootstrap says.
func Bootstrap(cluster *v1alpha1.LogCluster) string {
	return fmt.Sprintf("%s.%s.svc:%d", bootstrapName(cluster.Name), cluster.Namespace,
		portKafka(cluster))
}

// HTTPAddress is host:port of a broker's HTTP endpoint: the pod's name under the headless Service,
// which a broker has before it is ready (see brokersService).
func HTTPAddress(cluster, namespace string, broker int32) string {
	return fmt.Sprintf("%s-%d.%s.%s.svc:%d", BrokersName(cluster), broker, headlessName(cluster),
		namespace, portHTTP)
}

func headlessName(cluster string) string  { return cluster + "-brokers" }
func bootstrapName(cluster string) string { return cluster + "-bootstrap" }

func portKafka(cluster *v1alpha1.LogCluster) int32 {
	if listeners := cluster.Spec.Listeners; listeners != nil && listeners.Port != 0 {
		return listeners.Port
	}
	return portKafkaDefault
}

// selector finds a cluster's broker pods. It can never change: a StatefulSet's selector is
// immutable.
func selector(cluster *v1alpha1.LogCluster) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "heartwood",
		"app.kubernetes.io/instance":  cluster.Name,
		"app.kubernetes.io/component": "broker",
	}
}

// Labels are on every object of a cluster: those of selector, and more that may change. The map is
// the caller's own.
func Labels(cluster *v1alpha1.LogCluster) map[string]string {
	labels := selector(cluster)
	maps.Copy(labels, map[string]string{
		"app.kubernetes.io/managed-by": "heartwood-operator",
		v1alpha1.LabelCluster:          cluster.Name,
	})
	return labels
}

// metadata is what all objects of a cluster begin with. It sets no owner: apply does, for all
// alike.
func metadata(cluster *v1alpha1.LogCluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: cluster.Namespace, Labels: Labels(cluster)}
}
