package status

import (
	"testing"

	"heartwood.dev/heartwood/controllers/conditions"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/factstest"
)

// TestSharedConditionsKeepTheirGeneration checks that two conditions do not end "kubectl wait": a
// condition of an earlier generation, and a condition that its controller has removed.
func TestSharedConditionsKeepTheirGeneration(t *testing.T) {
	s := factstest.Outdated()
	s.Cluster.Generation = 3
	drained := metav1.Condition{Type: v1alpha1.ConditionDrained, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonDrained, ObservedGeneration: 2}
	status := describeCluster(s, []metav1.Condition{drained}, conditions.Removal{})
	got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDrained)
	own := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if got == nil || got.ObservedGeneration != 2 || own.ObservedGeneration != 3 {
		t.Errorf("got %+v and %+v", got, own)
	}
	s.Cluster.Status = status
	status = describeCluster(s, []metav1.Condition{{Type: v1alpha1.ConditionDrained}},
		conditions.Removal{})
	if got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDrained); got != nil {
		t.Errorf("the removed condition is %+v", got)
	}
}
