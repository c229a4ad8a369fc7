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

// apply creates or updates an object as it is rendered, owned by owner, by server-side apply. It
// reverts changes that others made to rendered fields. The API server writes nothing if nothing
// differs.
//
// Fields that are zero in the rendered object are left to others: no rendered field has a
// meaningful zero value. The status, which Go's encoding always includes, is not applied.
//
// The apply forces ownership. Otherwise a rendered field that another manager has set (kubectl
// edit, an earlier field manager) would turn every apply into a conflict. Errors name the object
// and wrap the API server's error.
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
	if err := c.Apply(ctx, configuration, client.FieldOwner(conditions.Operator),
		client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s %s: %w", object.GetObjectKind().GroupVersionKind().Kind,
			object.GetName(), err)
	}
	return nil
}
