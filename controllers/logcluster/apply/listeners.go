package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/render"
)

// RewriteListeners replaces the object that earlier versions stored in spec.listeners by a list.
// Brokers of earlier versions cannot decode a list, so the caller waits until all brokers run the
// image of the present template. The patch fails with a conflict if the LogCluster has changed
// since it was read; the change causes another reconciliation.
func (a *Applier) RewriteListeners(ctx context.Context, s *facts.Facts) error {
	cluster := s.Cluster
	if !cluster.Spec.Listeners.FromObject() || len(s.Pods) == 0 ||
		!hasImage(s.Brokers, render.Image(cluster, a.Settings)) {
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
	if err := a.Patch(ctx, cluster.DeepCopy(),
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
