package volumes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/internal/operator/volumes"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// TestPlacesAreForgotten checks that a place is removed when it is no longer valid, and when its
// LogCluster is removed.
func TestPlacesAreForgotten(t *testing.T) {
	c := fakeapi.Builder(t, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "present"}}).Build()
	r := &Reconciler{Client: c, Live: c}
	cluster := types.NamespacedName{Namespace: "space", Name: "main"}
	for name, want := range map[string]volumes.Presence{"present": volumes.Present,
		"absent": volumes.Absent} {
		if got, _ := r.places.find(t.Context(), c, cluster, name); got != want {
			t.Errorf("volume %s: got %v, want %v", name, got, want)
		}
	}
	known := func() map[string]place {
		all, _ := r.places.known.Get(cluster)
		return all
	}
	known()["absent"] = place{validUntil: time.Now()}
	_, _ = r.places.find(t.Context(), c, cluster, "present")
	if _, ok := known()["absent"]; ok || len(known()) != 1 {
		t.Errorf("got %v, want only the valid place", known())
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: cluster}); err != nil {
		t.Fatal(err)
	}
	if len(known()) > 0 {
		t.Errorf("got %v for a LogCluster that does not exist", known())
	}
}
