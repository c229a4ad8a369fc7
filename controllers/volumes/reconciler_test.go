package volumes

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/brokerstate"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// TestConsentIsKeptWithoutStatefulSet checks that a consent remains, and that condition VolumeLost
// is not decided again, while the operator replaces the StatefulSet. It is replaced when volumes
// grow or get another StorageClass.
func TestConsentIsKeptWithoutStatefulSet(t *testing.T) {
	cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "space", Name: "main",
		Annotations: map[string]string{v1alpha1.AnnotationReplaceVolume: "claim-1"}},
		Spec: v1alpha1.LogClusterSpec{Brokers: 3}}
	c := fakeapi.Builder(t, cluster).Build()
	status := conditions.NewShared()
	go func() {
		for range status.Changes() {
		}
	}()
	r := &Reconciler{Client: c, Live: c, Status: status, Brokers: brokerstate.NewTracker(c, c),
		Interval: time.Second}
	key := client.ObjectKeyFromObject(cluster)
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil || result.RequeueAfter != time.Second {
		t.Fatalf("result %+v, %v, want another decision after the interval", result, err)
	}
	after := &v1alpha1.LogCluster{}
	if err := c.Get(t.Context(), key, after); err != nil ||
		after.Annotations[v1alpha1.AnnotationReplaceVolume] != "claim-1" {
		t.Errorf("annotations %v, %v, want the consent kept", after.Annotations, err)
	}
	if set := status.Get(key); len(set) > 0 {
		t.Errorf("conditions %+v, want the last ones kept", set)
	}

	// Once the StatefulSet exists, the condition is decided.
	brokers := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
		Name: render.BrokersName("main")}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1))}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "space",
		Name: v1alpha1.BrokerLeaseName("main", 0)}}
	after.Annotations = nil
	for _, err := range []error{c.Create(t.Context(), brokers), c.Create(t.Context(), lease),
		c.Update(t.Context(), after)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if set := status.Get(key); len(set) != 1 || set[0].Reason != v1alpha1.ReasonVolumesPresent {
		t.Errorf("conditions %+v, want VolumesPresent", set)
	}
}
