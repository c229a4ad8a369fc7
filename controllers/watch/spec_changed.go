package watch

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecChanged selects changes of the spec: another generation, or another object. An object that
// was deleted and created again while the watch was interrupted arrives as an update, and usually
// both have generation 1. controller-runtime's predicate would drop this update.
var SpecChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return replaced(e) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
}}

// replaced reports whether the objects of an update are different ones with the same name.
func replaced(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}
