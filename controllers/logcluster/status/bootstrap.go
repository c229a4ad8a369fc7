package status

import (
	"context"
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/render"
)

// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list

// bootstrapInterval is the time between two checks whether clients can connect for the first time.
// A watch on EndpointSlices would cost more than these requests, which stop after the first
// success.
const bootstrapInterval = time.Second

// bootstrapped reports whether clients can connect, or could connect before, to the bootstrap
// Service: the Service has or had a ready endpoint. A LogCluster stays bootstrapped, which keeps
// Topics Ready while brokers restart.
func (r *Reconciler) bootstrapped(ctx context.Context,
	cluster *v1alpha1.LogCluster) (bool, error) {
	if cluster.Status.Bootstrapped {
		return true, nil
	}
	found := &discoveryv1.EndpointSliceList{}
	if err := r.Live.List(ctx, found, client.InNamespace(cluster.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: render.BootstrapServiceName(cluster.Name)}); err != nil {
		return false, fmt.Errorf("list the EndpointSlices of the bootstrap Service: %w", err)
	}
	for i := range found.Items {
		for _, endpoint := range found.Items[i].Endpoints {
			// According to the Kubernetes API, an unknown state counts as ready.
			if ready := endpoint.Conditions.Ready; ready == nil || *ready {
				return true, nil
			}
		}
	}
	return false, nil
}

// listenerStatuses returns the status of each listener, with its bootstrap address.
func listenerStatuses(s *facts.Facts) []v1alpha1.ListenerStatus {
	listeners := s.Cluster.Spec.Listeners.OrDefault()
	statuses := make([]v1alpha1.ListenerStatus, 0, len(listeners))
	for i := range listeners {
		kind := listeners[i].Type
		if kind == "" {
			kind = v1alpha1.ListenerInternal
		}
		statuses = append(statuses, v1alpha1.ListenerStatus{Name: listeners[i].Name, Type: kind,
			Bootstrap: render.ListenerBootstrap(s.Cluster, &listeners[i], s.Leases)})
	}
	return statuses
}
