package logcluster

import (
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// hold sets what the restart of each broker must wait for (spec.rollout, VersionSkew). It returns
// the time until the window begins; 0 if there is none or it has begun.
func hold(s *scope, state *rollout.State, now time.Time) (left time.Duration) {
	terms := rollout.Terms{Inside: true,
		Approved: s.cluster.RolloutApproved(s.brokers.Status.UpdateRevision)}
	if spec := s.cluster.Spec.Rollout; spec != nil {
		if terms.Inside, left = spec.Window.Contains(now); terms.Inside {
			left = 0
		}
	}
	skewed := s.skew(now)
	for id := range state.Brokers {
		if skewed.Kind.Holds() && !slices.Contains(skewed.Brokers, int32(id)) {
			state.Brokers[id].Hold = rollout.VersionSkew
			continue
		}
		if pod := s.pod(int32(id)); pod != nil {
			// spec.storage.size was changed to make room, perhaps on a full volume.
			asked := s.requested(pod) || s.volumes.Restarts[int32(id)]
			state.Brokers[id].Hold = terms.Hold(asked)
		}
	}
	return left
}

// heldInterval is the maximum time between two decisions while restarts are held up.
const heldInterval = 30 * time.Second

// heldRequeue returns the time to the next decision if the window begins after left; 0 means that
// the restarts do not wait for the window.
func heldRequeue(left time.Duration) time.Duration {
	if left == 0 {
		return heldInterval
	}
	return min(left, heldInterval)
}

// held says why spec.rollout holds a rolling update up: the reason of condition RollingOut, and a
// part of its message.
type held struct{ reason, text string }

// heldBy returns the text for a Hold.
func heldBy(s *scope, hold rollout.Hold) held {
	if hold == rollout.VersionSkew {
		return held{v1alpha1.ReasonVersionSkew, "Restarts wait: condition " +
			v1alpha1.ConditionVersionSkew + " says why, and what to do."}
	}
	if hold == rollout.OutsideWindow {
		window := s.cluster.Spec.Rollout.Window
		return held{v1alpha1.ReasonOutsideWindow, fmt.Sprintf("Restarts wait for the window "+
			"spec.rollout.window: %s to %s UTC.", window.Start, window.End)}
	}
	revision := s.brokers.Status.UpdateRevision
	return held{v1alpha1.ReasonApprovalRequired, fmt.Sprintf("Restarts wait for the approval of "+
		"revision %s of the pod template. To approve it, run: kubectl annotate logcluster -n %s %s "+
		"%s=%s --overwrite", revision, s.cluster.Namespace, s.cluster.Name,
		v1alpha1.AnnotationApproveRollout, revision)}
}
