package render

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TLSRoute is the Gateway API kind that forwards TLS connections based on their server name.
var TLSRoute = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1",
	Kind: "TLSRoute"}

// TLSRoutes renders a TLSRoute for each broker and each listener with a Gateway. A TLSRoute
// forwards connections for the broker's advertised host to the broker's Service, without decrypting
// them. The TLSRoutes are separate from the other objects, because the Gateway API may not be
// installed.
func TLSRoutes(cluster *v1alpha1.LogCluster, settings Settings) []client.Object {
	var routes []client.Object
	for _, listener := range cluster.Spec.Listeners {
		if listener.Type != v1alpha1.ListenerTLSRoute || listener.Gateway == nil {
			continue
		}
		for id := range settings.running(cluster) {
			routes = append(routes, tlsRoute(cluster, &listener, id))
		}
	}
	return routes
}

func tlsRoute(cluster *v1alpha1.LogCluster, listener *v1alpha1.Listener, id int32) client.Object {
	gateway := listener.Gateway
	parent := map[string]any{"name": gateway.Name}
	if gateway.Namespace != "" {
		parent["namespace"] = gateway.Namespace
	}
	if gateway.SectionName != "" {
		parent["sectionName"] = gateway.SectionName
	}
	service := BrokerServiceName(cluster.Name, listener.Name, id)
	route := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"parentRefs": []any{parent},
			"hostnames":  []any{AdvertisedHost(listener.Advertised.Host, id)},
			"rules": []any{map[string]any{"backendRefs": []any{
				map[string]any{"name": service, "port": int64(listener.Port)},
			}}},
		},
	}}
	route.SetGroupVersionKind(TLSRoute)
	route.SetNamespace(cluster.Namespace)
	route.SetName(service)
	route.SetLabels(Labels(cluster))
	route.SetAnnotations(listener.Annotations)
	return route
}
