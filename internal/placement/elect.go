package placement

import "slices"

// NoLeader is the leader of a partition that has none, as Kafka's Metadata API has it.
const NoLeader int32 = -1

// Candidate is what an election looks at.
type Candidate struct {
	Replicas []int32 // the preferred leader first
	ISR      []int32 // who has every acknowledged record; in any order
	Leader   int32   // the present one; NoLeader: none
}

// Elect returns the leader a partition should have: the present one while it lives, else the first replica that is alive and
// in sync; NoLeader if there is none. changed tells whether that is another than the present one; a leader elected so gets a
// new leader epoch.
//
// A present leader that fell out of the ISR has lost its log (a new disk, an unclean stop) and may not go on, alive or not:
// an election never chooses a log that lacks acknowledged records. There is no unclean election here: the price is that a
// partition waits for a replica in sync to come back, and who will not wait says so elsewhere
// (v1alpha1.AnnotationAcceptDataLoss).
//
// A present leader that may lead is kept although a replica before it in Replicas may lead, too: each change costs every
// client a refresh. It does not tell incarnations of a broker apart; alive, or the caller, must.
func Elect(c Candidate, alive func(broker int32) bool) (leader int32, changed bool) {
	may := func(id int32) bool { return slices.Contains(c.ISR, id) && alive(id) }
	if slices.Contains(c.Replicas, c.Leader) && may(c.Leader) {
		return c.Leader, false
	}
	for _, id := range c.Replicas {
		if may(id) {
			return id, true
		}
	}
	return NoLeader, c.Leader != NoLeader
}
