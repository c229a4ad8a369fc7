package watch

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// AnnotationsChanged drops updates that change no annotation whose name is relevant, such as the
// renewals of Leases.
func AnnotationsChanged(relevant func(name string) bool) predicate.Predicate {
	of := func(object client.Object) map[string]string {
		annotations := maps.Clone(object.GetAnnotations())
		maps.DeleteFunc(annotations, func(name, _ string) bool { return !relevant(name) })
		return annotations
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(of(e.ObjectOld), of(e.ObjectNew))
	}}
}
