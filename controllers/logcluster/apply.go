package logcluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"heartwood.dev/heartwood/controllers/conditions"
)

// apply creates or updates a rendered object by server-side apply, and sets owner as its owner. It
// reverts changes that others made to rendered fields. If nothing differs, the API server writes
// nothing.
//
// Fields that are zero in the rendered object are not applied; no rendered field needs a zero
// value. The status is removed from the applied content, because Go's encoding always includes it.
//
// The apply forces ownership. Otherwise a rendered field that another manager has set (kubectl
// edit, an earlier field manager) would turn every apply into a conflict. Errors name the object
// and wrap the API server's error. apply sets the object's UID and generation to those of the
// result.
func apply(ctx context.Context, c client.Client, owner, object client.Object) error {
	if err := controllerutil.SetControllerReference(owner, object, c.Scheme()); err != nil {
		return fmt.Errorf("set the owner of %s: %w", object.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("convert %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	applied := &unstructured.Unstructured{Object: content} // and then the API server's response
	if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		client.FieldOwner(conditions.Operator), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind,
			object.GetName(), err)
	}
	object.SetUID(applied.GetUID())
	object.SetGeneration(applied.GetGeneration())
	return nil
}
