package rollout

import (
	"cmp"
	"slices"
)

// Volumes describes which brokers' volumes must be replaced, and why brokers keep theirs.
type Volumes struct {
	// Replace contains the brokers whose volumes must be replaced by volumes of another StorageClass.
	// The value is true if the broker's claim has no volume yet.
	Replace map[int32]bool
	// Outside contains the brokers that are in no ISR and have no retained records.
	Outside map[int32]bool
	// Retained contains deleted topics' partitions whose records are retained.
	Retained []Partition
}

// Why is the reason why a broker keeps its volume for now.
type Why int

const (
	// NoReason means that no partition is the reason.
	NoReason Why = iota
	// NotInSync means that a replica of the partition, on any broker, is not in sync.
	NotInSync
	// OnlyReplica means that the partition has no in-sync replica on another broker.
	OnlyReplica
	// RetainedRecords means that the broker has records of a deleted topic, which no other broker
	// would copy to the replacement volume.
	RetainedRecords
	// TooFewInSync means that without the broker the partition would have too few in-sync replicas.
	TooFewInSync
)

// NextVolume returns the next step of the replacement of volumes, after the decision about
// restarts. With phase Restart, the broker can be stopped and its volume replaced.
// Decision.Outdated is the number of brokers whose volumes must be replaced.
//
// A claim without a volume is replaced at once if its broker does not run, because nothing is lost.
// Every other replacement requires that no restart is pending, that all brokers are ready and
// settled, and that all replicas of all partitions are in sync. So one broker's copies are complete
// before the next broker loses its volume. The broker itself is exempt from these requirements if
// it does not run and is in no ISR, for example because its volume cannot be mounted. A broker with
// the only replica of a partition, or with retained records, keeps its volume; the other brokers
// continue.
func NextVolume(s State, v Volumes, restart Decision) (Decision, Why) {
	ids := s.order(v.Replace)
	if len(ids) == 0 || !s.Observed {
		return restart, NoReason
	}
	decision := Decision{Phase: Waiting, Broker: -1, Outdated: len(ids)}
	for _, id := range ids {
		if b := s.Brokers[id]; v.Replace[id] && !b.Ready && !b.Up {
			decision.Phase, decision.Broker = Restart, id
			return decision, NoReason
		}
	}
	if restart.Phase == Waiting && s.mayDiscard(restart, v) {
		decision.Phase, decision.Broker = Restart, restart.Broker
		return decision, NoReason
	}
	if restart.Phase != Complete {
		return restart, NoReason
	}
	for id, b := range s.Brokers {
		if !b.Ready || !b.Up || b.Settling {
			decision.Broker = int32(id)
			return decision, NoReason
		}
	}
	if name := s.notInSync(-1); name != "" {
		decision.Broker, decision.Partition = ids[0], name
		return decision, NotInSync
	}
	why := NoReason
	for _, id := range ids {
		name, reason := s.keeps(id, v.Retained)
		if name == "" {
			return Decision{Phase: Restart, Broker: id, Outdated: len(ids)}, NoReason
		}
		if decision.Broker < 0 {
			decision.Broker, decision.Partition, why = id, name, reason
		}
	}
	return decision, why
}

// order returns the brokers of a set in the order in which their volumes are replaced. As with
// restarts, the broker that leads the fewest partitions comes first.
func (s State) order(set map[int32]bool) (ids []int32) {
	for id := range set {
		if int(id) < len(s.Brokers) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.Brokers[a].Leaders, s.Brokers[b].Leaders), cmp.Compare(b, a))
	})
	return ids
}

// mayDiscard reports whether the volume of the broker for which restarts are waiting can be
// replaced: the broker does not run and is in no ISR, its volume must be replaced, and all other
// brokers are ready, settled and in sync.
func (s State) mayDiscard(restart Decision, v Volumes) bool {
	_, replace := v.Replace[restart.Broker]
	if !replace || !v.Outside[restart.Broker] || restart.Outdated > 0 {
		return false
	}
	for id, b := range s.Brokers {
		if down := int32(id) == restart.Broker; down == (b.Ready || b.Up) || b.Settling {
			return false
		}
	}
	return s.notInSync(restart.Broker) == ""
}

// notInSync returns the first name, in alphabetical order, of a partition with an out-of-sync
// replica on a broker other than except; "" if there is none.
func (s State) notInSync(except int32) string {
	return smallest(s.Partitions, func(p *Partition) bool {
		return slices.ContainsFunc(p.Replicas, func(id int32) bool {
			return id != except && !slices.Contains(p.InSync, id)
		})
	})
}

// keeps returns a partition that prevents the replacement of a broker's volume, and the reason; ""
// if there is none.
func (s State) keeps(broker int32, retained []Partition) (name string, why Why) {
	only := smallest(s.Partitions,
		func(p *Partition) bool { return slices.Equal(p.Replicas, []int32{broker}) })
	if only != "" {
		return only, OnlyReplica
	}
	held := smallest(retained,
		func(p *Partition) bool { return slices.Contains(p.Replicas, broker) })
	if held != "" {
		return held, RetainedRecords
	}
	return s.Blocking(broker), TooFewInSync
}

// smallest returns the first name, in alphabetical order, of the matching partitions, or "" if
// there are none.
func smallest(all []Partition, matches func(*Partition) bool) (name string) {
	for i := range all {
		if matches(&all[i]) {
			name = smaller(name, all[i].Name)
		}
	}
	return name
}

// Stopping is the state of a broker whose volume must be replaced and whose pod is being deleted.
// The pod is kept until Release, so that the broker cannot start again with the old volume.
type Stopping struct {
	// Wanted is true if the claim exists, is not being deleted, and must be replaced.
	Wanted  bool
	Stopped bool // true if the broker's process has exited
	Forced  bool // true if the pod was deleted without waiting for its processes
	InISR   bool // true if the broker is in any ISR
	Expired bool // true if the broker has been stopped for too long while it is in an ISR
}

// Action is the next action for a broker that is stopping.
type Action int

const (
	// Wait means that no action is due yet.
	Wait Action = iota
	// Discard means that the claim must be deleted, and then the pod released.
	Discard
	// Release means that the pod must be released. The broker then starts with the current claim.
	Release
)

// Next returns the next action. Before the caller discards the claim, it calls Next again with a
// value of InISR that it has read from the API server itself. The claim is deleted only when the
// broker has exited and is in no ISR, because every acknowledged record is then on another broker.
// Other brokers may have failed in the meantime. If this broker is the last member of an ISR when
// it stops, it starts again with its old volume.
func (s Stopping) Next() Action {
	switch {
	case !s.Wanted, s.Forced && !s.Stopped:
		return Release
	case !s.Stopped:
		return Wait
	case !s.InISR:
		return Discard
	case s.Expired:
		return Release
	}
	return Wait
}
