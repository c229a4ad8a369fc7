package certificates

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// clusterOfLease maps a broker's Lease to its LogCluster.
func clusterOfLease(_ context.Context, lease client.Object) []reconcile.Request {
	cluster, _, ok := v1alpha1.ParseBrokerLeaseName(lease.GetName())
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: lease.GetNamespace(), Name: cluster}}}
}

// annotationChanged drops the renewals of Leases: certificates depend on the endpoints of brokers
// and on AnnotationTrust only.
var annotationChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(relevant(e.ObjectOld), relevant(e.ObjectNew))
	},
}

// relevant returns the annotations of a Lease on which certificates depend.
func relevant(lease client.Object) map[string]string {
	annotations := maps.Clone(lease.GetAnnotations())
	for _, key := range slices.Collect(maps.Keys(annotations)) {
		if key != v1alpha1.AnnotationTrust &&
			!strings.HasPrefix(key, v1alpha1.AnnotationEndpointPrefix) {
			delete(annotations, key)
		}
	}
	return annotations
}
