package certificates

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// annotationChanged drops the renewals of Leases: certificates depend on the endpoints of brokers
// and on AnnotationTrust only.
var annotationChanged = watch.AnnotationsChanged(func(name string) bool {
	return name == v1alpha1.AnnotationTrust ||
		strings.HasPrefix(name, v1alpha1.AnnotationEndpointPrefix)
})
