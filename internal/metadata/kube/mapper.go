package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// newMapper knows the resources of the kinds that a store uses. Clients ask the API server for that
// by default, so they cannot even be made while it is away; a broker that was killed then would end
// again and again, and Kubernetes would wait longer and longer before it starts it once more, also
// when the API server is back.
func newMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"LogCluster", "Topic", "Partition"} {
		addKind(mapper, v1alpha1.GroupVersion.WithKind(kind))
	}
	addKind(mapper, coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	return mapper
}

// addKind adds a kind and that of its lists, by which caches of single namespaces ask.
func addKind(mapper *meta.DefaultRESTMapper, kind schema.GroupVersionKind) {
	mapper.Add(kind, meta.RESTScopeNamespace)
	mapper.Add(kind.GroupVersion().WithKind(kind.Kind+"List"), meta.RESTScopeNamespace)
}
