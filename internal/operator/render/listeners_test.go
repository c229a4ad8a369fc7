package render

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestEndpoint(t *testing.T) {
	node := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"},
		{Type: corev1.NodeExternalIP, Address: "203.0.113.1"}}
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
		{Port: 9094, NodePort: 31000}}}}
	balanced := service.DeepCopy()
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{},
		{IP: "198.51.100.1", Hostname: "lb.example.com"}}
	host := &v1alpha1.Advertised{Host: "b{id}.example.com"}
	both := &v1alpha1.Advertised{Host: "fd00::1", Port: 443}
	for _, c := range []struct {
		kind       v1alpha1.ListenerType
		advertised *v1alpha1.Advertised
		input      EndpointInput
		want       string
	}{
		{"", nil, EndpointInput{}, "main-broker-2.main-brokers.logs.svc:9094"},
		{v1alpha1.ListenerInternal, host, EndpointInput{}, "b2.example.com:9094"},
		{v1alpha1.ListenerNodePort, nil, EndpointInput{Service: service, NodeAddresses: node},
			"203.0.113.1:31000"},
		{v1alpha1.ListenerNodePort, nil, EndpointInput{Service: service, NodeAddresses: node[:2]},
			"10.0.0.1:31000"},
		{v1alpha1.ListenerNodePort, nil, EndpointInput{NodeAddresses: node}, ""},
		{v1alpha1.ListenerNodePort, nil, EndpointInput{Service: service}, ""},
		{v1alpha1.ListenerNodePort, both, EndpointInput{}, "[fd00::1]:443"},
		{v1alpha1.ListenerLoadBalancer, nil, EndpointInput{Service: service}, ""},
		{v1alpha1.ListenerLoadBalancer, nil, EndpointInput{Service: balanced},
			"lb.example.com:9094"},
		{v1alpha1.ListenerTLSRoute, host, EndpointInput{Service: service}, "b2.example.com:443"},
		{v1alpha1.ListenerTLSRoute, nil, EndpointInput{Service: service}, ""},
	} {
		listener := &v1alpha1.Listener{Name: "l", Port: 9094, Type: c.kind,
			Advertised: c.advertised}
		c.input.Broker = 2
		if got := Endpoint(full(), listener, c.input); got != c.want {
			t.Errorf("%s %+v: got %q, want %q", c.kind, c.advertised, got, c.want)
		}
	}
}

// TestBrokersReadNamedSecretsOnly checks that the brokers' Role permits only reading Secrets that
// it names. Access to all Secrets in a namespace would give each broker the passwords of all users
// (CVE-2025-66623 in Strimzi). The permission to create Secrets would give it the tokens of all
// ServiceAccounts.
func TestBrokersReadNamedSecretsOnly(t *testing.T) {
	want := []string{"safe-brokers-tls", "safe-scram-0", "safe-scram-1", "safe-scram-admin"}
	found := false
	for _, rule := range role(secured(), Settings{ScramShards: 1}).Rules {
		if !slices.Contains(rule.Resources, "secrets") {
			continue
		}
		found = true
		if slices.Equal(rule.Verbs, []string{"patch"}) {
			if !slices.Equal(rule.ResourceNames, want[3:]) {
				t.Errorf("brokers may patch secrets %v", rule.ResourceNames)
			}
			continue
		}
		if !slices.Equal(rule.ResourceNames, want) ||
			!slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
			t.Errorf("brokers may %v secrets %v, want %v", rule.Verbs, rule.ResourceNames, want)
		}
	}
	if !found {
		t.Error("brokers may read no Secret")
	}
	for _, rule := range role(full(), Settings{}).Rules {
		if slices.Contains(rule.Resources, "secrets") {
			t.Error("brokers without TLS and authentication may read Secrets")
		}
	}
}

func TestServiceNamesFitHostNames(t *testing.T) {
	cluster, listener := strings.Repeat("c", 40), strings.Repeat("l", 12)
	for _, name := range []string{listenerServiceName(cluster, listener),
		BrokerServiceName(cluster, listener, 999)} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}
