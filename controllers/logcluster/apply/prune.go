package apply

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/render"
)

// Routes applies the TLSRoutes, and deletes the TLSRoutes of listeners and brokers that no longer
// exist. It lists them with a request to the API server, because a cache for a kind that is not
// installed would fail.
func (a *Applier) Routes(ctx context.Context, s *facts.Facts) error {
	rendered := render.TLSRoutes(s.Cluster, SettingsOf(s, a.Settings, ""))
	for _, route := range rendered {
		if err := a.applier().Apply(ctx, s.Cluster, route); apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: the Gateway API v1.5 or later is not installed", err)
		} else if err != nil {
			return err
		}
	}
	routes := &unstructured.UnstructuredList{}
	routes.SetGroupVersionKind(render.TLSRoute)
	err := a.List(ctx, routes, ofCluster(s.Cluster)...)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list TLSRoutes: %w", err)
	}
	for i := range routes.Items {
		if err := a.prune(ctx, s, &routes.Items[i], rendered); err != nil {
			return err
		}
	}
	return nil
}

// pruneServices deletes the Services of listeners and brokers that no longer exist.
func (a *Applier) pruneServices(ctx context.Context, s *facts.Facts,
	rendered []client.Object) error {
	services := &corev1.ServiceList{}
	if err := a.List(ctx, services, ofCluster(s.Cluster)...); err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for i := range services.Items {
		if err := a.prune(ctx, s, services.Items[i].DeepCopy(), rendered); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes an object that the LogCluster owns and that is not among the rendered objects. If
// another client has deleted the object and created it again with the same name, the cache can be
// outdated; prune then keeps the new object.
func (a *Applier) prune(ctx context.Context, s *facts.Facts, object client.Object,
	rendered []client.Object) error {
	if !metav1.IsControlledBy(object, s.Cluster) || contains(rendered, object) {
		return nil
	}
	uid := object.GetUID()
	if err := a.Delete(ctx, object, client.Preconditions{UID: &uid}); IgnoreStale(err) != nil {
		return fmt.Errorf("delete %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// contains reports whether the rendered objects contain an object with the same type and name.
func contains(rendered []client.Object, object client.Object) bool {
	return slices.ContainsFunc(rendered, func(other client.Object) bool {
		return reflect.TypeOf(other) == reflect.TypeOf(object) && other.GetName() == object.GetName()
	})
}

// ofCluster selects a LogCluster's objects.
func ofCluster(cluster *v1alpha1.LogCluster) []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.Namespace),
		client.MatchingLabels{v1alpha1.LabelCluster: cluster.Name}}
}
