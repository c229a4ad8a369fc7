package controllers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// apply makes an object as it is rendered, owned by owner, and takes back what others changed of
// it. The API server writes nothing if nothing differs.
//
// What the rendered object leaves at zero is left to others, as a builder of ours has no zero that
// it means; its status, which Go's encoding always writes, is not ours to apply.
//
// It forces ownership: who else set a field of ours (kubectl edit, an earlier field manager) would
// otherwise make every apply a conflict, and the cluster would stay as nobody asked for. Errors
// name the object, and wrap what the API server said.
func apply(ctx context.Context, c client.Client, owner, object client.Object) error {
	if err := controllerutil.SetControllerReference(owner, object, c.Scheme()); err != nil {
		return fmt.Errorf("set the owner of %s: %w", object.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("convert %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	configuration := client.ApplyConfigurationFromUnstructured(
		&unstructured.Unstructured{Object: content},
	)
	if err := c.Apply(ctx, configuration, client.FieldOwner(fieldOwner),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind,
			object.GetName(), err)
	}
	return nil
}
