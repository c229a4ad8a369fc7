package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// networkPolicy renders the brokers' NetworkPolicy. It has an effect only if the network plugin of
// the Kubernetes cluster enforces it. It allows connections to a listener from the listener's
// allowFrom (by default from everywhere), and from brokers and the operator. It allows connections
// to the HTTP port from the operator, from brokers, from the chart's console and from
// http.allowFrom. It allows connections to the peer port from brokers and the operator. Connections
// from the broker's node, such as probes, are not subject to NetworkPolicies.
func networkPolicy(cluster *v1alpha1.LogCluster, settings Settings) *networkingv1.NetworkPolicy {
	own := []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{MatchLabels: selector(cluster)}},
		chartPeer(settings, "operator"),
	}
	var rules []networkingv1.NetworkPolicyIngressRule
	for _, listener := range cluster.Spec.Listeners.OrDefault() {
		from := sources(listener.AllowFrom)
		if len(from) > 0 { // brokers and the operator also connect to the first listener
			from = append(from, own...)
		}
		rules = append(rules, ingress(listener.Port, from))
	}
	if cluster.Spec.Secured() {
		rules = append(rules, ingress(v1alpha1.PeerPort, own))
	}
	own = append(own, chartPeer(settings, "console"))
	if cluster.Spec.HTTP != nil {
		own = append(own, sources(cluster.Spec.HTTP.AllowFrom)...)
	}
	rules = append(rules, ingress(portHTTP, own))
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1",
			Kind: "NetworkPolicy"},
		ObjectMeta: metadata(cluster, BrokersName(cluster.Name)),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(cluster)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     rules,
		},
	}
}

// ingress returns a rule for one port. If from is empty, the rule allows all sources.
func ingress(port int32,
	from []networkingv1.NetworkPolicyPeer) networkingv1.NetworkPolicyIngressRule {
	return networkingv1.NetworkPolicyIngressRule{
		Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolTCP),
			Port: new(intstr.FromInt32(port))}},
		From: from,
	}
}

// chartPeer selects the pods of one of the chart's components, in the operator's namespace. If this
// namespace is unknown, it selects pods with the component's labels in all namespaces.
func chartPeer(settings Settings, component string) networkingv1.NetworkPolicyPeer {
	namespaces := &metav1.LabelSelector{}
	if settings.Namespace != "" {
		namespaces.MatchLabels = map[string]string{corev1.LabelMetadataName: settings.Namespace}
	}
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: namespaces,
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			"app.kubernetes.io/name":      "heartwood",
			"app.kubernetes.io/component": component,
		}}}
}

// sources converts allowFrom to peers of a NetworkPolicy.
func sources(from []v1alpha1.NetworkSource) []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for _, source := range from {
		peer := networkingv1.NetworkPolicyPeer{PodSelector: source.PodSelector,
			NamespaceSelector: source.NamespaceSelector}
		if source.CIDR != "" {
			peer.IPBlock = &networkingv1.IPBlock{CIDR: source.CIDR}
		}
		peers = append(peers, peer)
	}
	return peers
}
