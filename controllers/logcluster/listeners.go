package logcluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/operator/render"
)

// rewriteListeners replaces the object that earlier versions stored in spec.listeners by a list.
// Brokers of earlier versions cannot decode a list, so the caller waits until all brokers run the
// image of the present template. The patch fails with a conflict if the LogCluster has changed
// since it was read; the change causes another reconciliation.
func (r *Reconciler) rewriteListeners(ctx context.Context, s *scope) error {
	cluster := s.cluster
	if !cluster.Spec.Listeners.FromObject() || len(s.pods) == 0 ||
		!hasImage(s.brokers, render.Image(cluster, r.Settings)) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": cluster.ResourceVersion},
		"spec":     map[string]any{"listeners": cluster.Spec.Listeners},
	})
	if err != nil {
		return fmt.Errorf("encode listeners: %w", err)
	}
	// Patch stores the result in its argument, which must not be the cached object.
	if err := r.Patch(ctx, cluster.DeepCopy(),
		client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("rewrite spec.listeners as a list: %w", err)
	}
	return nil
}

// hasImage reports whether the template of a StatefulSet has the given image.
func hasImage(brokers *appsv1.StatefulSet, image string) bool {
	containers := brokers.Spec.Template.Spec.Containers
	return len(containers) > 0 && containers[0].Image == image
}

// ofShard maps a Secret with SCRAM verifiers to its LogCluster: the brokers' Role names these
// Secrets.
func ofShard(ctx context.Context, secret client.Object) []reconcile.Request {
	cluster := secret.GetLabels()[v1alpha1.LabelCluster]
	if !strings.HasPrefix(secret.GetName(), cluster+"-scram-") {
		return nil
	}
	return watch.ClusterOf(ctx, secret)
}

// listenersCondition returns condition ListenersReady. Its message names listeners without
// encryption on which clients authenticate.
func listenersCondition(s *scope) metav1.Condition {
	var pending, plain []string
	for _, listener := range s.cluster.Spec.Listeners.OrDefault() {
		if missing := withoutEndpoint(s, listener.Name); len(missing) > 0 {
			pending = append(pending, fmt.Sprintf("Listener %s has no address on brokers %v.",
				listener.Name, missing))
		}
		if listener.TLS == nil && len(listener.Authentication) > 0 {
			plain = append(plain, fmt.Sprintf("Listener %s has no TLS: records are not encrypted, "+
				"and connections can be taken over.", listener.Name))
		}
	}
	condition := metav1.Condition{Type: v1alpha1.ConditionListenersReady,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonListenersReady,
		Message: "All listeners have an address on every broker."}
	if err := cmp.Or(s.cluster.Spec.Listeners.Validate(),
		s.cluster.Spec.ValidatePeers()); err != nil {
		pending = append(pending, fmt.Sprintf("The listeners are invalid: %v.", err))
	}
	if len(pending) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonAddressPending
		condition.Message = strings.Join(pending, " ")
	}
	condition.Message = strings.Join(append([]string{condition.Message}, plain...), " ")
	return condition
}

// withoutEndpoint returns the brokers whose Leases contain no endpoint of a listener, sorted.
func withoutEndpoint(s *scope, listener string) []int32 {
	found := map[int32]bool{}
	for i := range s.leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.leases[i].Name)
		found[id] = ok && s.leases[i].Annotations[v1alpha1.AnnotationEndpointPrefix+listener] != ""
	}
	var missing []int32
	for id := range s.cluster.Spec.Brokers {
		if !found[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// endpointsChanged drops the renewals of Leases: the status depends on the endpoints, the rack,
// the volume and the versions in a Lease only.
var endpointsChanged = watch.AnnotationsChanged(func(name string) bool {
	return strings.HasPrefix(name, v1alpha1.AnnotationEndpointPrefix) ||
		name == v1alpha1.AnnotationRack || name == v1alpha1.AnnotationVolume ||
		name == v1alpha1.AnnotationVersion || name == v1alpha1.AnnotationFormatLevel
})
