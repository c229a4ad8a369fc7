package watch

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// PlacementChanged selects changes of a LogCluster that can change the assignment of new replicas:
// changes of its spec, and of the set of brokers whose volumes are almost full.
var PlacementChanged = predicate.Or[client.Object](SpecChanged,
	predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*v1alpha1.LogCluster)
		after, both := e.ObjectNew.(*v1alpha1.LogCluster)
		return ok && both && !maps.Equal(before.FullBrokers(), after.FullBrokers())
	}})
