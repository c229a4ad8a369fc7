package election

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// ballot is the input for a set's elections. decide is a pure function of a ballot.
type ballot struct {
	partitionset.Input
	// leaveISR is the remaining time for which the operator leaves ISR changes to the leaders because
	// a broker has failed. returned is the same after a broker has returned. Both are 0 if the
	// operator makes the ISR changes itself.
	leaveISR, returned time.Duration
}

// decide makes a set's elections, writes them into the set, and returns the decisions. If an
// election requires a write of the set, this write also contains the ISR changes that the leaders
// would make after a failure. Otherwise each leader would have to write the set, too. After the
// return of a broker, however, the ISR is left to the leaders, because only they add the broker to
// the ISR again.
func (b ballot) decide(set *partitionset.Set) []partitionset.Decided {
	if b.leaveISR == 0 && b.returned == 0 {
		return set.Decide(b.Input)
	}
	in := b.Input
	in.LeaveISR = true
	if b.returned == 0 {
		trial := set.Clone()
		trial.Decide(in)
		in.LeaveISR = !trial.StatusChanged()
	}
	return set.Decide(in)
}

// moved returns the decisions that changed the leader or the leader epoch.
func moved(decided []partitionset.Decided) []partitionset.Decided {
	var all []partitionset.Decided
	for _, d := range decided {
		if d.After.State == nil || d.Before.State != nil &&
			d.Before.State.LeaderEpoch == d.After.State.LeaderEpoch {
			continue
		}
		if d.Before.State == nil && d.After.State.Leader == placement.NoLeader {
			continue
		}
		all = append(all, d)
	}
	return all
}
