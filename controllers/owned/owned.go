// Package owned decides whether an object was created for a resource, and applies objects with
// server-side apply. If another program has created an object with the same name, the object is
// neither changed nor deleted, because it may carry that program's traffic or credentials.
package owned

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"heartwood.dev/heartwood/controllers/conditions"
)

// ForeignError means that an object exists that was not created for its supposed owner.
type ForeignError struct{ Kind, Name, OwnerKind string }

// Error implements error.
func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s exists and was not made for this %s", e.Kind, e.Name, e.OwnerKind)
}

// Message returns sentences for a condition: they describe the state, and what to do.
func (e *ForeignError) Message() string {
	return fmt.Sprintf("%s %s exists and was not made for this %s: delete the %s, or create it with "+
		"another name. The operator then creates its own.", e.Kind, e.Name, e.OwnerKind, e.Kind)
}

// AsForeign returns the ForeignError in err, or nil.
func AsForeign(err error) *ForeignError {
	var foreign *ForeignError
	errors.As(err, &foreign)
	return foreign
}

// ByEarlier reports whether an object's controller is an earlier resource with the kind and name of
// owner. Kubernetes deletes such an object.
func ByEarlier(c client.Client, object metav1.Object, owner client.Object) bool {
	controller := metav1.GetControllerOf(object)
	kind, err := c.GroupVersionKindFor(owner)
	return err == nil && controller != nil && controller.UID != owner.GetUID() &&
		controller.Kind == kind.Kind && controller.APIVersion == kind.GroupVersion().String() &&
		controller.Name == owner.GetName()
}

// Applier applies objects.
type Applier struct {
	client.Client
	Live client.Reader // reader of the API server, without a cache
}

// Apply creates or updates an object with server-side apply, and sets owner as its owner. It
// reverts other clients' changes of the applied fields. If nothing differs, the API server writes
// nothing. It returns a ForeignError if the object exists and was not created for owner.
//
// Fields with the zero value are not applied. The status is removed from the applied content,
// because Go's encoding always includes it.
//
// If the object belongs to owner, the apply forces ownership. Otherwise an applied field that
// another manager has set (kubectl edit, an earlier field manager) would turn every apply into a
// conflict. Errors name the object and wrap the API server's error. Apply copies UID and generation
// from the result to the object.
func (a Applier) Apply(ctx context.Context, owner, object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind().Kind
	uid, err := a.find(ctx, owner, object)
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, object.GetName(), err)
	}
	// The UID is a precondition, because a foreign object could have replaced the object that find has
	// read.
	object.SetUID(uid)
	if err := controllerutil.SetControllerReference(owner, object, a.Scheme()); err != nil {
		return fmt.Errorf("set the owner of %s: %w", object.GetName(), err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("convert %s: %w", object.GetName(), err)
	}
	delete(content, "status")
	applied := &unstructured.Unstructured{Object: content} // also receives the API server's response
	options := []client.ApplyOption{client.FieldOwner(conditions.Operator)}
	// ForceOwnership is not set for a new object, so the apply fails with a conflict if another client
	// creates the object at the same moment.
	if uid != "" {
		options = append(options, client.ForceOwnership)
	}
	if err := a.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied),
		options...); err != nil {
		return fmt.Errorf("apply %s %s: %w", kind, object.GetName(), err)
	}
	object.SetUID(applied.GetUID())
	object.SetGeneration(applied.GetGeneration())
	return nil
}

// find returns the UID of the stored object, or "" if it does not exist. If the cache contains an
// object of owner, find returns its UID. Otherwise it reads from the API server itself, because the
// cache can be outdated and contains no field managers.
func (a Applier) find(ctx context.Context, owner, object client.Object) (types.UID, error) {
	key, kind := client.ObjectKeyFromObject(object), object.GetObjectKind().GroupVersionKind()
	if cached, ok := object.DeepCopyObject().(client.Object); ok && a.Get(ctx, key, cached) == nil &&
		metav1.IsControlledBy(cached, owner) {
		return cached.GetUID(), nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	switch err := a.Live.Get(ctx, key, live); {
	case apierrors.IsNotFound(err): // also true if the kind does not exist
		return "", nil
	case err != nil:
		return "", err
	case metav1.IsControlledBy(live, owner), abandoned(live):
		return live.UID, nil
	case ByEarlier(a.Client, live, owner):
		return "", errors.New("it belongs to an earlier resource of the same name, and Kubernetes " +
			"is deleting it")
	}
	ownerKind, err := a.GroupVersionKindFor(owner)
	if err != nil {
		return "", err
	}
	return "", &ForeignError{Kind: kind.Kind, Name: key.Name, OwnerKind: ownerKind.Kind}
}

// abandoned reports whether the operator has applied an object that no longer has a controller.
// This happens if its owner was deleted with --cascade=orphan, for a new owner to take over the
// object.
func abandoned(object metav1.Object) bool {
	return metav1.GetControllerOf(object) == nil && slices.ContainsFunc(object.GetManagedFields(),
		func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == conditions.Operator && f.Operation == metav1.ManagedFieldsOperationApply
		})
}
