package logcluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// prune deletes the Services and TLSRoutes of listeners and brokers that no longer exist. They are
// the only rendered objects whose number changes. Objects that the LogCluster does not own are
// kept.
func (r *Reconciler) prune(ctx context.Context, s *scope, rendered []client.Object) error {
	services := &corev1.ServiceList{}
	if err := r.List(ctx, services, ofCluster(s.cluster)...); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	outdated := false
	for i := range services.Items {
		service := &services.Items[i]
		if metav1.IsControlledBy(service, s.cluster) && !contains[*corev1.Service](rendered, service) {
			outdated = true
			if err := r.Delete(ctx, service.DeepCopy()); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete service %s: %w", service.Name, err)
			}
		}
	}
	hasRoutes := func(listener v1alpha1.Listener) bool {
		return listener.Type == v1alpha1.ListenerTLSRoute
	}
	if outdated || slices.ContainsFunc(s.cluster.Spec.Listeners, hasRoutes) {
		return r.pruneRoutes(ctx, s, rendered)
	}
	return nil
}

// pruneRoutes deletes the TLSRoutes that are not rendered. The list is read from the API server,
// not from a cache: the kind may not exist.
func (r *Reconciler) pruneRoutes(ctx context.Context, s *scope, rendered []client.Object) error {
	routes := &unstructured.UnstructuredList{}
	routes.SetGroupVersionKind(render.TLSRoute)
	err := r.List(ctx, routes, ofCluster(s.cluster)...)
	if apierrors.IsNotFound(err) {
		return nil // the Gateway API is not installed
	} else if err != nil {
		return fmt.Errorf("list TLSRoutes: %w", err)
	}
	for i := range routes.Items {
		route := &routes.Items[i]
		if metav1.IsControlledBy(route, s.cluster) &&
			!contains[*unstructured.Unstructured](rendered, route) {
			if err := r.Delete(ctx, route); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete TLSRoute %s: %w", route.GetName(), err)
			}
		}
	}
	return nil
}

// contains reports whether the rendered objects contain one of the same type and name.
func contains[T client.Object](rendered []client.Object, object T) bool {
	return slices.ContainsFunc(rendered, func(other client.Object) bool {
		_, same := other.(T)
		return same && other.GetName() == object.GetName()
	})
}

// ofCluster selects the objects of a LogCluster.
func ofCluster(cluster *v1alpha1.LogCluster) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}}
}
