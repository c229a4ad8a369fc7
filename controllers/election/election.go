package election

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// ballot is the input of the elections of a set. decide is a pure function of it.
type ballot struct {
	partitionset.Input
	// leaveISR is the time for which ISR changes are left to the leaders because a broker has
	// failed, and returned the time because a broker has returned; 0 if they are not.
	leaveISR, returned time.Duration
}

// decide makes the elections of a set, writes them into the set, and returns the decisions. If the
// set is written because of an election, the write also contains the ISR changes that the leaders
// would make after a failure: otherwise each leader would have to write the set, too. After the
// return of a broker, the ISR is left to the leaders nevertheless, because it is they who add the
// broker again.
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
