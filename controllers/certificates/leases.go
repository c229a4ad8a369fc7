package certificates

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/watch"
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

// leaseChanged drops events for renewals of Leases, because certificates depend only on the
// brokers' endpoints and on Registration.Trust.
var leaseChanged = predicate.Or(watch.EndpointsChanged,
	watch.RegistrationChanged(func(r v1alpha1.Registration) string { return r.Trust }))
