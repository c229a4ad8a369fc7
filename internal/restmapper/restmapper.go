// Package restmapper builds REST mappers from a fixed list of kinds.
//
// The mapper that controller-runtime builds by default discovers kinds from the API server, so a
// client cannot even be constructed while the API server is unavailable. A process that starts then
// would exit again and again, and Kubernetes would restart it with a growing backoff that outlasts
// the outage.
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

// Namespaced returns namespaced kinds.
func Namespaced(version schema.GroupVersion, names ...string) Kinds {
	return Kinds{GroupVersion: version, Scope: meta.RESTScopeNamespace, Names: names}
}

// ClusterScoped returns cluster-scoped kinds.
func ClusterScoped(version schema.GroupVersion, names ...string) Kinds {
	return Kinds{GroupVersion: version, Scope: meta.RESTScopeRoot, Names: names}
}

// New returns a mapper of the given kinds and their list kinds. Caches that are restricted to
// namespaces look up list kinds.
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
