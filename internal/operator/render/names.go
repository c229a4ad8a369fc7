package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// portHTTP is the port of a broker's HTTP server for metrics, health checks and reports. It is
// fixed, because the operator connects to it (HTTPAddress).
const portHTTP = v1alpha1.HTTPPort

// These are the names of ports and of the volume.
const (
	portNamePeers = "peers"
	// The chart's PodMonitor selects the HTTP port by one of these names. With TLS, the port has the
	// name portNameHTTPS.
	portNameHTTP  = "http"
	portNameHTTPS = "https"
	volumeData    = "data"

	volumeCertificates = "certificates"
)

// BrokersName returns the name of the brokers' StatefulSet, ServiceAccount, Role, RoleBinding and
// PodDisruptionBudget. The name of a broker's pod is this name, a dash and the broker id.
func BrokersName(cluster string) string { return cluster + "-broker" }

// httpPortName returns the name of the HTTP port.
func httpPortName(cluster *v1alpha1.LogCluster) string {
	if cluster.Spec.Secured() {
		return portNameHTTPS
	}
	return portNameHTTP
}

// Bootstrap returns the clients' bootstrap address, host:port inside the Kubernetes cluster.
// LogCluster.status.bootstrap contains this address.
func Bootstrap(cluster *v1alpha1.LogCluster) string {
	return serviceBootstrap(cluster, &cluster.Spec.Listeners.OrDefault()[0])
}

// BootstrapServiceName returns the name of the Service that has the address returned by Bootstrap.
func BootstrapServiceName(cluster string) string { return bootstrapName(cluster) }

// ContainerName is the name of the container in a broker's pod.
const ContainerName = "broker"

// HTTPAddress returns the host:port of a broker's HTTP server. The host is the pod's name in the
// headless Service, which resolves even before the broker is ready (see brokersService).
func HTTPAddress(cluster, namespace string, broker int32) string {
	return fmt.Sprintf("%s-%d.%s.%s.svc:%d", BrokersName(cluster), broker, HeadlessName(cluster),
		namespace, portHTTP)
}

// HeadlessName returns the name of the headless Service, which gives each broker a host name.
func HeadlessName(cluster string) string  { return cluster + "-brokers" }
func bootstrapName(cluster string) string { return cluster + "-bootstrap" }

// BootstrapServices returns the names of the Services through which clients reach any broker at a
// listener.
func BootstrapServices(cluster *v1alpha1.LogCluster, listener string) []string {
	return []string{bootstrapName(cluster.Name), listenerServiceName(cluster.Name, listener)}
}

// listenerServiceName returns the name of the Service that forwards connections to any broker at a
// listener. It is used for listeners that are not of type Internal.
func listenerServiceName(cluster, listener string) string {
	return cluster + "-" + listener + "-bootstrap"
}

// bootstrapMax is the maximum number of brokers in the bootstrap addresses of a listener that is
// not of type Internal.
const bootstrapMax = 3

// ListenerBootstrap returns a listener's bootstrap addresses, host:port,.... For type Internal,
// this is the Service's address. For other types, these are the addresses that brokers have
// published in their Leases, or "" if there are none yet.
func ListenerBootstrap(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener,
	leases []coordinationv1.Lease) string {
	if internal(listener) {
		return serviceBootstrap(cluster, listener)
	}
	var addresses []string
	for i := range leases {
		address := leases[i].Annotations[v1alpha1.AnnotationEndpointPrefix+listener.Name]
		if _, id, ok := v1alpha1.ParseBrokerLeaseName(leases[i].Name); address != "" && ok &&
			id < cluster.Spec.Brokers {
			addresses = append(addresses, address)
		}
	}
	slices.Sort(addresses)
	return strings.Join(addresses[:min(len(addresses), bootstrapMax)], ",")
}

// serviceBootstrap returns the bootstrap Service's address at a listener.
func serviceBootstrap(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener) string {
	return fmt.Sprintf("%s.%s.svc:%d", bootstrapName(cluster.Name), cluster.Namespace,
		listener.Port)
}

// ListenerCertificateName returns the name of a listener's cert-manager Certificate, which is also
// the name of the Certificate's Secret.
func ListenerCertificateName(cluster, listener string) string {
	return cluster + "-listener-" + listener + "-tls"
}

// AdvertisedHost returns a broker's advertised host, in which {id} is replaced with the broker id.
func AdvertisedHost(host string, broker int32) string {
	return strings.ReplaceAll(host, "{id}", strconv.Itoa(int(broker)))
}

func portKafka(cluster *v1alpha1.LogCluster) int32 {
	return cluster.Spec.Listeners.OrDefault()[0].Port
}

// Selector returns the labels that select the pods and volume claims of a LogCluster's brokers. The
// caller may modify the map.
func Selector(cluster *v1alpha1.LogCluster) map[string]string { return selector(cluster) }

// ClaimLabels returns the labels that are common to the volume claims of all brokers. The caller
// may modify the map.
func ClaimLabels() map[string]string {
	labels := selector(&v1alpha1.LogCluster{})
	delete(labels, labelInstance)
	return labels
}

// ClaimCluster returns the name of the LogCluster to whose broker a volume claim belongs.
func ClaimCluster(claim metav1.Object) string { return claim.GetLabels()[labelInstance] }

// labelInstance is the label on volume claims and pods that contains the LogCluster's name.
const labelInstance = "app.kubernetes.io/instance"

// selector returns the labels that select the pods of a cluster's brokers. These labels must never
// change, because a StatefulSet's selector is immutable.
func selector(cluster *v1alpha1.LogCluster) map[string]string {
	return map[string]string{
		"app.kubernetes.io/name":      "heartwood",
		labelInstance:                 cluster.Name,
		"app.kubernetes.io/component": "broker",
	}
}

// Labels returns the labels of every object of a cluster: the selector's labels, and further
// labels. The caller may modify the map.
func Labels(cluster *v1alpha1.LogCluster) map[string]string {
	labels := selector(cluster)
	maps.Copy(labels, map[string]string{
		"app.kubernetes.io/managed-by": "heartwood-operator",
		v1alpha1.LabelCluster:          cluster.Name,
	})
	return labels
}

// metadata returns an object's metadata without an owner. The operator sets the owner when it
// applies the object.
func metadata(cluster *v1alpha1.LogCluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: cluster.Namespace, Labels: Labels(cluster)}
}
