package render

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// routePortDefault is the default of advertised.port for listeners of type TLSRoute. It is the
// usual TLS port of a gateway.
const routePortDefault = 443

// internal reports whether a listener is of type Internal.
func internal(listener *v1alpha1.Listener) bool {
	return listener.Type == v1alpha1.ListenerInternal || listener.Type == ""
}

// internalPorts returns the Service ports of the listeners of type Internal. If there is none, it
// returns the ports of all listeners, because a Service needs at least one port.
func internalPorts(cluster *v1alpha1.LogCluster) []corev1.ServicePort {
	var ports, all []corev1.ServicePort
	for _, listener := range cluster.Spec.Listeners.OrDefault() {
		port := servicePort(listener.Name, listener.Port)
		if all = append(all, port); internal(&listener) {
			ports = append(ports, port)
		}
	}
	if len(ports) == 0 {
		return all
	}
	return ports
}

// containerPorts returns the ports of a broker's container.
func containerPorts(cluster *v1alpha1.LogCluster) []corev1.ContainerPort {
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number,
			Protocol: corev1.ProtocolTCP}
	}
	var ports []corev1.ContainerPort
	for _, listener := range cluster.Spec.Listeners.OrDefault() {
		ports = append(ports, port(listener.Name, listener.Port))
	}
	if cluster.Spec.Secured() {
		ports = append(ports, port(portNamePeers, v1alpha1.PeerPort))
	}
	return append(ports, port(httpPortName(cluster), portHTTP))
}

// listenerServices renders the Services of the listeners that are not of type Internal. Each
// listener has one Service for all brokers, from which clients learn the brokers' addresses, and
// one Service for each broker.
func listenerServices(cluster *v1alpha1.LogCluster, settings Settings) []client.Object {
	var services []client.Object
	for _, listener := range cluster.Spec.Listeners {
		if internal(&listener) {
			continue
		}
		services = append(services, listenerService(cluster, &listener,
			listenerServiceName(cluster.Name, listener.Name)))
		for id := range settings.running(cluster) {
			service := listenerService(cluster, &listener,
				BrokerServiceName(cluster.Name, listener.Name, id))
			service.Spec.Selector[appsv1.StatefulSetPodNameLabel] =
				v1alpha1.BrokerLeaseName(cluster.Name, id)
			// Clients must be able to connect to leaders that are not ready yet.
			service.Spec.PublishNotReadyAddresses = true
			services = append(services, service)
		}
	}
	return services
}

// BrokerServiceName returns the name of one broker's Service for a listener that is not of type
// Internal.
func BrokerServiceName(cluster, listener string, broker int32) string {
	return fmt.Sprintf("%s-%s-%d", cluster, listener, broker)
}

// listenerService renders a Service of a listener. A connection from outside the Kubernetes cluster
// goes to a broker on the node at which it arrives. So brokers see the clients' addresses, and no
// connection is forwarded between nodes.
func listenerService(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener,
	name string) *corev1.Service {
	service := bootstrapService(cluster)
	service.ObjectMeta = metadata(cluster, name)
	service.Annotations = listener.Annotations
	service.Spec.Ports = []corev1.ServicePort{servicePort(listener.Name, listener.Port)}
	switch listener.Type {
	case v1alpha1.ListenerNodePort:
		service.Spec.Type = corev1.ServiceTypeNodePort
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	case v1alpha1.ListenerLoadBalancer:
		service.Spec.Type = corev1.ServiceTypeLoadBalancer
		service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	default:
		service.Spec.Type = corev1.ServiceTypeClusterIP
	}
	return service
}

// EndpointInput contains the information, besides the listener, that determines a broker's
// advertised address.
type EndpointInput struct {
	Broker  int32
	Service *corev1.Service // Service of the broker and listener; nil if it does not exist
	// NodeAddresses are the addresses of the broker's node.
	NodeAddresses []corev1.NodeAddress
}

// Endpoint returns a broker's advertised host:port at a listener, or "" if it is not known yet.
func Endpoint(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener,
	input EndpointInput) string {
	host, port := "", listener.Port
	switch listener.Type {
	case v1alpha1.ListenerNodePort:
		host, port = nodeHost(input.NodeAddresses), nodePort(input.Service)
	case v1alpha1.ListenerLoadBalancer:
		host = loadBalancerHost(input.Service)
	case v1alpha1.ListenerTLSRoute:
		port = routePortDefault
	default:
		host = fmt.Sprintf("%s.%s.%s.svc", v1alpha1.BrokerLeaseName(cluster.Name, input.Broker),
			HeadlessName(cluster.Name), cluster.Namespace)
	}
	if advertised := listener.Advertised; advertised != nil {
		host = cmp.Or(AdvertisedHost(advertised.Host, input.Broker), host)
		port = cmp.Or(advertised.Port, port)
	}
	if host == "" || port == 0 {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// nodeHost returns the node address that is most likely reachable for clients outside the
// Kubernetes cluster.
func nodeHost(addresses []corev1.NodeAddress) string {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalDNS, corev1.NodeExternalIP,
		corev1.NodeInternalIP} {
		for _, address := range addresses {
			if address.Type == kind && address.Address != "" {
				return address.Address
			}
		}
	}
	return ""
}

func nodePort(service *corev1.Service) int32 {
	if service == nil || len(service.Spec.Ports) == 0 {
		return 0
	}
	return service.Spec.Ports[0].NodePort
}

func loadBalancerHost(service *corev1.Service) string {
	if service == nil {
		return ""
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if host := cmp.Or(ingress.Hostname, ingress.IP); host != "" {
			return host
		}
	}
	return ""
}
