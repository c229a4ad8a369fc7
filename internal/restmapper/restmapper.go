// Package restmapper builds REST mappers from a fixed list of kinds.
//
// By default, controller-runtime builds a REST mapper that requests the list of kinds from the API
// server. So no client can be created while the API server is unavailable. A process that starts in
// this situation would exit and be restarted repeatedly. Because the backoff between restarts
// grows, the process would be up only some time after the end of the outage.
package restmapper

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds are kinds of one API group version and scope.
type Kinds struct {
	GroupVersion schema.GroupVersion
	Scope        meta.RESTScope
	Names        []string
}

// Namespaced returns namespaced kinds of an API group version.
func Namespaced(version schema.GroupVersion, names ...string) Kinds {
	return Kinds{GroupVersion: version, Scope: meta.RESTScopeNamespace, Names: names}
}

// ClusterScoped returns cluster-scoped kinds of an API group version.
func ClusterScoped(version schema.GroupVersion, names ...string) Kinds {
	return Kinds{GroupVersion: version, Scope: meta.RESTScopeRoot, Names: names}
}

// New returns a REST mapper for the given kinds and their list kinds, such as Pod and PodList. The
// list kinds are needed by caches that are restricted to namespaces.
func New(kinds ...Kinds) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds {
		for _, name := range k.Names {
			mapper.Add(k.GroupVersion.WithKind(name), k.Scope)
			mapper.Add(k.GroupVersion.WithKind(name+"List"), k.Scope)
		}
	}
	return mapper
}
