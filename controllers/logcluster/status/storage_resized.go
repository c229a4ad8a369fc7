package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// resizeChanged returns condition StorageResized if its reason has changed, otherwise nil. A change
// requires an event. The first status of a new LogCluster does not count as a change, and neither
// does the first status that this version writes.
func resizeChanged(before, after []metav1.Condition) *metav1.Condition {
	old := meta.FindStatusCondition(before, v1alpha1.ConditionStorageResized)
	now := meta.FindStatusCondition(after, v1alpha1.ConditionStorageResized)
	if now == nil || old == nil && now.Status == metav1.ConditionTrue ||
		old != nil && old.Reason == now.Reason {
		return nil
	}
	return now
}

// severeResize reports whether a reason of condition StorageResized requires a user to act.
func severeResize(reason string) bool {
	return reason == v1alpha1.ReasonClassCannotExpand ||
		reason == v1alpha1.ReasonResizeFailed || reason == v1alpha1.ReasonShrinkRefused ||
		reason == v1alpha1.ReasonGrowthWithdrawn
}
