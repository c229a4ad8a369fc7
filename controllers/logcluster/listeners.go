package logcluster

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/render"
)

// rewriteListeners replaces the object that earlier versions stored in spec.listeners by a list.
// Brokers of earlier versions cannot decode a list, so it waits until all brokers run the image of
// the present template. The patch fails with a conflict if the LogCluster has changed since it was
// read; the change causes another reconciliation.
func (r *Reconciler) rewriteListeners(ctx context.Context, cluster *v1alpha1.LogCluster) error {
	if !cluster.Spec.Listeners.FromObject() {
		return nil
	}
	brokers := &appsv1.StatefulSet{}
	if err := r.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace,
		Name: render.BrokersName(cluster.Name)}, brokers); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !rolledOut(brokers, render.Image(cluster, r.Settings)) {
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

// rolledOut reports whether all pods of a StatefulSet were created from its present template, and
// this template has the given image.
func rolledOut(brokers *appsv1.StatefulSet, image string) bool {
	containers := brokers.Spec.Template.Spec.Containers
	return brokers.Status.ObservedGeneration == brokers.Generation &&
		brokers.Status.UpdateRevision != "" &&
		brokers.Status.UpdateRevision == brokers.Status.CurrentRevision &&
		len(containers) > 0 && containers[0].Image == image
}
