package status

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestStatusFollowsLeases: each annotation of a Lease that the status shows triggers a
// reconciliation, but a renewal does not.
func TestStatusFollowsLeases(t *testing.T) {
	for name, want := range map[string]bool{
		v1alpha1.AnnotationEndpointPrefix + "kafka": true,
		v1alpha1.AnnotationRack:                     true,
		v1alpha1.AnnotationVolume:                   true,
		v1alpha1.AnnotationVersion:                  true,
		v1alpha1.AnnotationFormatLevel:              true,
		"example.com/other":                         false,
	} {
		before := &coordinationv1.Lease{}
		after := before.DeepCopy()
		after.Spec.RenewTime = new(metav1.NowMicro())
		update := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
		if endpointsChanged.Update(update) {
			t.Fatal("a renewal triggers a reconciliation")
		}
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, name, "a")
		if got := endpointsChanged.Update(update); got != want {
			t.Errorf("annotation %s: got %t, want %t", name, got, want)
		}
	}
}
