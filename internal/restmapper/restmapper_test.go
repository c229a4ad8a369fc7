package restmapper

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMapperKnowsKindsAndTheirLists(t *testing.T) {
	core := schema.GroupVersion{Version: "v1"}
	mapper := New(Namespaced(core, "Pod"), ClusterScoped(core, "Node"))
	for kind, scope := range map[string]meta.RESTScope{
		"Pod": meta.RESTScopeNamespace, "PodList": meta.RESTScopeNamespace,
		"Node": meta.RESTScopeRoot, "NodeList": meta.RESTScopeRoot,
	} {
		mapping, err := mapper.RESTMapping(core.WithKind(kind).GroupKind(), core.Version)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if mapping.Scope.Name() != scope.Name() {
			t.Errorf("%s: got scope %s, want %s", kind, mapping.Scope.Name(), scope.Name())
		}
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1"); err == nil {
		t.Error("kind that was not given to New: got a mapping, want an error")
	}
}
