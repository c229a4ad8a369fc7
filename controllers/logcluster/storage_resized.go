package logcluster

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/claims"
)

// storage is the state of the volume claims of a LogCluster.
type storage struct {
	claims.Verdict
	restarts map[int32]bool // see claims.State
	replaced map[int32]bool // see rollout.Volumes
}

// describeStorage returns the state of the claims for the status.
func describeStorage(cluster *v1alpha1.LogCluster, state claims.State,
	replaced map[int32]bool) storage {
	verdict := state.Verdict()
	if cluster.Paused() {
		for _, claim := range state.Claims {
			if _, changed := claim.Next(state.Size); changed {
				verdict = claims.Verdict{Reason: v1alpha1.ReasonPaused, Message: pausedMessage}
			}
		}
	}
	return storage{verdict, state.Restarts, replaced}
}

// condition returns condition StorageResized.
func (s storage) condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionStorageResized,
		Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message}
	if s.Resized {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}

// resizeChanged returns condition StorageResized if its reason has changed, which is worth an
// event, or nil. A new LogCluster, and the first status of this version, are none.
func resizeChanged(before, after []metav1.Condition) *metav1.Condition {
	old := meta.FindStatusCondition(before, v1alpha1.ConditionStorageResized)
	now := meta.FindStatusCondition(after, v1alpha1.ConditionStorageResized)
	if now == nil || old == nil && now.Status == metav1.ConditionTrue ||
		old != nil && old.Reason == now.Reason {
		return nil
	}
	return now
}

// severeResize reports whether somebody must act upon a reason of condition StorageResized.
func severeResize(reason string) bool {
	return reason == v1alpha1.ReasonClassCannotExpand ||
		reason == v1alpha1.ReasonResizeFailed || reason == v1alpha1.ReasonShrinkRefused ||
		reason == v1alpha1.ReasonGrowthWithdrawn
}
