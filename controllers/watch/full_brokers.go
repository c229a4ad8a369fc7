package watch

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// PlacementChanged selects changes of a LogCluster that may change where new replicas are assigned:
// of its spec, and of the brokers whose volumes are almost full.
var PlacementChanged = predicate.Or[client.Object](SpecChanged,
	predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.LogCluster)
		after, both := e.ObjectNew.(*v1alpha1.LogCluster)
		return ok && both && !maps.Equal(before.FullBrokers(), after.FullBrokers())
	}})
