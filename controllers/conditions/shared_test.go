package conditions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestConditionsKeepTheirGeneration checks that a condition keeps the LogCluster's generation for
// which it was decided, and that Get still returns a removed condition, without a status.
func TestConditionsKeepTheirGeneration(t *testing.T) {
	s, cluster := NewShared(), &v1alpha1.LogCluster{}
	notified := func(do func() error) {
		t.Helper()
		result := make(chan error)
		go func() { result <- do() }()
		<-s.Changes()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	}
	set := func() error {
		return s.Set(t.Context(), cluster, metav1.Condition{Type: v1alpha1.ConditionDrained,
			Status: metav1.ConditionTrue})
	}
	for generation := range int64(3) {
		cluster.Generation = generation
		notified(set)
		if got := s.Get(client.ObjectKeyFromObject(cluster)); len(got) != 1 ||
			got[0].ObservedGeneration != generation {
			t.Fatalf("with generation %d: %+v", generation, got)
		}
	}
	notified(func() error { return s.Remove(t.Context(), cluster, v1alpha1.ConditionDrained) })
	if got := s.Get(client.ObjectKeyFromObject(cluster)); len(got) != 1 || got[0].Status != "" {
		t.Errorf("after the removal: %+v", got)
	}
	// The second removal sends no notification. A notification would block here.
	if err := s.Remove(t.Context(), cluster, v1alpha1.ConditionDrained); err != nil {
		t.Error(err)
	}
}
