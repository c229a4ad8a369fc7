package outcome

import (
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// held says why spec.rollout holds a rolling update up: the reason of condition RollingOut, and a
// part of its message.
type held struct{ reason, text string }

// HeldBy returns the text for a Hold.
func HeldBy(s *facts.Facts, hold rollout.Hold) held {
	if hold == rollout.VersionSkew {
		return held{v1alpha1.ReasonVersionSkew, "Restarts wait: condition " +
			v1alpha1.ConditionVersionSkew + " says why, and what to do."}
	}
	if hold == rollout.OutsideWindow {
		window := s.Cluster.Spec.Rollout.Window
		return held{v1alpha1.ReasonOutsideWindow, fmt.Sprintf("Restarts wait for the window "+
			"spec.rollout.window: %s to %s UTC.", window.Start, window.End)}
	}
	revision := s.Brokers.Status.UpdateRevision
	return held{v1alpha1.ReasonApprovalRequired, fmt.Sprintf("Restarts wait for the approval of "+
		"revision %s of the pod template. To approve it, run: kubectl annotate logcluster -n %s %s "+
		"%s=%s --overwrite", revision, s.Cluster.Namespace, s.Cluster.Name,
		v1alpha1.AnnotationApproveRollout, revision)}
}

// PausedStep returns the step that a pause holds up. The replacement of volumes is one, too.
func PausedStep(s *facts.Facts) rollout.Decision {
	next := rollout.Next(s.RolloutState())
	if volumes := len(s.VolumesToReplace().Replace); next.Phase == rollout.Complete && volumes > 0 {
		next = rollout.Decision{Phase: rollout.Waiting, Broker: -1, Outdated: volumes}
	}
	return next
}
