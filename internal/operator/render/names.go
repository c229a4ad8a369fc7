package render

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// portHTTP is the port of a broker's metrics, health and reports. It is fixed, as the operator
// connects to it (HTTPAddress).
const portHTTP = 9644

// portKafkaDefault is the default port of the listener; the CRD has the same default.
const portKafkaDefault = 9092

// Names of ports and of the volume.
const (
	portNameKafka = "kafka"
	portNameHTTP  = "http" // Prometheus scrapes the port of this name
	volumeData    = "data"
)

// BrokersName returns the name of the brokers' StatefulSet, ServiceAccount, Role, RoleBinding and
// PodDisruptionBudget. A pod's name is this name and the broker id.
func BrokersName(cluster string) string { return cluster + "-broker" }

// Bootstrap returns the bootstrap address of clients, host:port inside the Kubernetes cluster; it
// is LogCluster.status.bootstrap.
func Bootstrap(cluster *v1alpha1.LogCluster) string {
	return fmt.Sprintf("%s.%s.svc:%d", bootstrapName(cluster.Name), cluster.Namespace,
		portKafka(cluster))
}

// HTTPAddress returns host:port of a broker's HTTP endpoint: the pod's name in the headless
// Service, which resolves before the broker is ready (see brokersService).
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

// selector returns the labels that select a cluster's broker pods. They must never change: a
// StatefulSet's selector is immutable.
func selector(cluster *v1alpha1.LogCluster) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "heartwood",
		"app.kubernetes.io/instance":  cluster.Name,
		"app.kubernetes.io/component": "broker",
	}
}

// Labels returns the labels of every object of a cluster: those of selector, and others that may
// change. The caller owns the map.
func Labels(cluster *v1alpha1.LogCluster) map[string]string {
	labels := selector(cluster)
	maps.Copy(labels, map[string]string{
		"app.kubernetes.io/managed-by": "heartwood-operator",
		v1alpha1.LabelCluster:          cluster.Name,
	})
	return labels
}

// metadata returns the metadata of an object. It has no owner; the operator sets it when it applies
// the object.
func metadata(cluster *v1alpha1.LogCluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: cluster.Namespace, Labels: Labels(cluster)}
}
