package roll

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/rollout"
)

// hold sets what each broker's restart must wait for (spec.rollout, VersionSkew). It returns the
// time until the window begins; 0 if there is no window or it has begun.
func hold(s *facts.Facts, applied facts.Applied, state *rollout.State,
	now time.Time) (left time.Duration) {
	terms := rollout.Terms{Inside: true,
		Approved: s.Cluster.RolloutApproved(s.Brokers.Status.UpdateRevision)}
	if spec := s.Cluster.Spec.Rollout; spec != nil {
		if terms.Inside, left = spec.Window.Contains(now); terms.Inside {
			left = 0
		}
	}
	skewed := s.Skew(now)
	for id := range state.Brokers {
		if skewed.Kind.Holds() && !slices.Contains(skewed.Brokers, int32(id)) {
			state.Brokers[id].Hold = rollout.VersionSkew
			continue
		}
		if pod := s.Pod(int32(id)); pod != nil {
			// A restart for a larger volume counts as requested: the user changed spec.storage.size, perhaps
			// because the volume is full.
			asked := s.Requested(pod) || applied.Volumes.Restarts[int32(id)]
			state.Brokers[id].Hold = terms.Hold(asked)
		}
	}
	return left
}
