package pki

import (
	"net/netip"
	"slices"
)

// clusterDomain is the default DNS domain of a Kubernetes cluster. Certificates also contain the
// names without the domain, so a cluster with another domain needs no setting as long as clients
// use those names.
const clusterDomain = "cluster.local"

// ListenerNames contains the names by which clients connect to a listener.
type ListenerNames struct {
	Namespace string
	Services  []string // Services whose names clients use
	Headless  []string // headless Services, each with a host name per pod
	// Hosts contains advertised host names and IP addresses. An unknown one is "".
	Hosts []string
}

// Request returns the request for the listener's certificate. The names are sorted and unique, so
// the same names always result in the same request.
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

// serviceNames returns a Service's DNS names. The shortest name does not contain the namespace, and
// resolves only in the Service's own namespace.
func serviceNames(service, namespace string) []string {
	qualified := service + "." + namespace
	return []string{service, qualified, qualified + ".svc",
		qualified + ".svc." + clusterDomain}
}

// PeerRequest returns the request for a broker's peer certificate. Brokers connect to each other by
// IP address and verify the URI. Clients of the HTTP port, such as Prometheus, verify the pod's
// host name in the headless Service, or the Service's name, which is the same for all brokers.
func PeerRequest(pod, headless, namespace, uri string) Request {
	request := Request{CommonName: pod, URIs: []string{uri}, Server: true, Client: true}
	for _, name := range serviceNames(headless, namespace)[1:] {
		request.DNSNames = append(request.DNSNames, name, pod+"."+name)
	}
	slices.Sort(request.DNSNames)
	return request
}
