package outcome

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/claims"
)

// Storage is the state of a LogCluster's volume claims.
type Storage struct {
	claims.Verdict
	Restarts map[int32]bool // see claims.State
	Replaced map[int32]bool // see rollout.Volumes
}

// DescribeStorage returns the state of the claims for the status.
func DescribeStorage(cluster *v1alpha1.LogCluster, state claims.State,
	replaced map[int32]bool) Storage {
	verdict := state.Verdict()
	if cluster.Paused() {
		for _, claim := range state.Claims {
			if _, changed := claim.Next(state.Size); changed {
				verdict = claims.Verdict{Reason: v1alpha1.ReasonPaused, Message: pausedMessage}
			}
		}
	}
	return Storage{verdict, state.Restarts, replaced}
}

// condition returns condition StorageResized.
func (s Storage) condition() metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionStorageResized,
		Status: metav1.ConditionFalse, Reason: s.Reason, Message: s.Message}
	if s.Resized {
		condition.Status = metav1.ConditionTrue
	}
	return condition
}
