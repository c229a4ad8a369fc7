package outcome

import (
	"fmt"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// Held describes why spec.rollout holds up a rolling update: the reason of condition RollingOut,
// and a part of its message.
type Held struct{ reason, text string }

// HeldBy returns the description of a Hold.
func HeldBy(s *facts.Facts, hold rollout.Hold) Held {
	if hold == rollout.VersionSkew {
		return Held{v1alpha1.ReasonVersionSkew, "Restarts wait: condition " +
			v1alpha1.ConditionVersionSkew + " says why, and what to do."}
	}
	if hold == rollout.OutsideWindow {
		window := s.Cluster.Spec.Rollout.Window
		return Held{v1alpha1.ReasonOutsideWindow, fmt.Sprintf("Restarts wait for the window "+
			"spec.rollout.window: %s to %s UTC.", window.Start, window.End)}
	}
	revision := s.Brokers.Status.UpdateRevision
	return Held{v1alpha1.ReasonApprovalRequired, fmt.Sprintf("Restarts wait for the approval of "+
		"revision %s of the pod template. To approve it, run: kubectl annotate logcluster -n %s %s "+
		"%s=%s --overwrite", revision, s.Cluster.Namespace, s.Cluster.Name,
		v1alpha1.AnnotationApproveRollout, revision)}
}

// PausedStep returns the step that a pause holds up. This can also be the replacement of volumes.
func PausedStep(s *facts.Facts, applied facts.Applied) rollout.Decision {
	next := rollout.Next(s.RolloutState(applied))
	volumes := len(s.VolumesToReplace(applied).Replace)
	if next.Phase == rollout.Complete && volumes > 0 {
		next = rollout.Decision{Phase: rollout.Waiting, Broker: -1, Outdated: volumes}
	}
	return next
}

// Interval is the default time between two attempts to continue a rolling update.
const Interval = 5 * time.Second

// heldInterval is the maximum time between two decisions while restarts are held up.
const heldInterval = 30 * time.Second

// HeldRequeue returns the time until the next decision. left is the time until the window begins; 0
// means that the restarts do not wait for the window.
func HeldRequeue(left time.Duration) time.Duration {
	if left == 0 {
		return heldInterval
	}
	return min(left, heldInterval)
}

// Shorter returns the shorter of two durations. A duration of 0 counts as none.
func Shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
