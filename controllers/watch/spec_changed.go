package watch

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecChanged selects updates in which the generation or the object itself has changed. If an
// object was deleted and created again while the watch was interrupted, it arrives as an update,
// and usually both versions have generation 1. controller-runtime's predicate would drop this
// update.
var SpecChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return replaced(e) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
}}

// replaced reports whether the two objects of an update are different objects with the same name.
func replaced(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}
