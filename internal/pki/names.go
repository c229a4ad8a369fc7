package pki

import (
	"net/netip"
	"slices"
)

// clusterDomain is the default DNS domain of a Kubernetes cluster. Names without it are certified
// too, so a cluster with another domain needs no setting as long as clients use these.
const clusterDomain = "cluster.local"

// ListenerNames are the names by which clients connect to a listener.
type ListenerNames struct {
	Namespace string
	Services  []string // Services whose names clients use
	Headless  []string // headless Services, each with a host name for each pod
	// Hosts are advertised host names and IP addresses, and "" for unknown ones.
	Hosts []string
}

// Request returns the request for the listener's certificate. The names are sorted and unique, so
// that the same names give the same request.
func (n ListenerNames) Request(commonName string) Request {
	request := Request{CommonName: commonName, Server: true}
	for _, service := range n.Services {
		request.DNSNames = append(request.DNSNames, serviceNames(service, n.Namespace)...)
	}
	for _, service := range n.Headless {
		for _, name := range serviceNames(service, n.Namespace) {
			request.DNSNames = append(request.DNSNames, name, "*."+name)
		}
	}
	for _, host := range n.Hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			request.IPs = append(request.IPs, address.Unmap().WithZone(""))
		} else if host != "" {
			request.DNSNames = append(request.DNSNames, host)
		}
	}
	slices.Sort(request.DNSNames)
	request.DNSNames = slices.Compact(request.DNSNames)
	slices.SortFunc(request.IPs, netip.Addr.Compare)
	request.IPs = slices.Compact(request.IPs)
	return request
}

// serviceNames returns the DNS names of a Service. The shortest one is not qualified by the
// namespace; it resolves in the Service's own namespace.
func serviceNames(service, namespace string) []string {
	qualified := service + "." + namespace
	return []string{service, qualified, qualified + ".svc",
		qualified + ".svc." + clusterDomain}
}

// PeerRequest returns the request for the peer certificate of a broker. Brokers connect to each
// other by IP address and verify the URI. Clients of the HTTP port, such as Prometheus, verify the
// host name of the pod in the headless Service or, as one name for all brokers, that of the
// Service.
func PeerRequest(pod, headless, namespace, uri string) Request {
	request := Request{CommonName: pod, URIs: []string{uri}, Server: true, Client: true}
	for _, name := range serviceNames(headless, namespace)[1:] {
		request.DNSNames = append(request.DNSNames, name, pod+"."+name)
	}
	slices.Sort(request.DNSNames)
	return request
}
