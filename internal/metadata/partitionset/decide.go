package partitionset

import (
	"reflect"

	"heartwood.dev/heartwood/internal/placement"
)

// Topic contains the properties of a Topic that affect the operator's decisions.
type Topic struct {
	Tag          string // tag of the topic's id
	Partitions   int32
	AllowUnclean bool // value of the topic's setting uncleanLeaderElection
	// AcceptedDataLoss contains users' consent to data loss (placement.Options.AcceptedDataLoss), by
	// partition.
	AcceptedDataLoss map[int32]string
}

// Input contains the inputs of Decide other than the set.
type Input struct {
	Topics  map[string]Topic // topics by the name of the Topic resource
	Brokers map[int32]placement.BrokerState
	// Incarnation is a new, unique incarnation id for replicas that are added. It must not contain
	// commas or blanks.
	Incarnation string
	// Preferred selects partitions whose leadership must move back to the preferred leader now.
	Preferred func(Key) bool
	// LeaveISR leaves changes that affect only the ISR to leaders that serve. Such leaders detect a
	// failure themselves, and also change many partitions in one write.
	LeaveISR bool
}

// Decided is the decision about one partition.
type Decided struct {
	Key           Key
	Before, After Entry
	Retired       bool // true if the Topic does not exist or has fewer partitions
	placement.Decision
}

// Decide makes a decision about every partition, in the order of the keys, and writes the decisions
// into the set. It retires a partition whose Topic does not exist or has fewer partitions. It makes
// no decision about a partition that has neither a Topic nor a state. Decide is idempotent.
func (s *Set) Decide(in Input) []Decided {
	var all []Decided
	for _, key := range s.Keys() {
		before, _ := s.Get(key)
		if before.Assignment == nil || s.Invalid(key) {
			continue
		}
		topic, exists := in.Topics[key.Topic]
		exists = exists && topic.Tag == before.Assignment.Tag && key.Index < topic.Partitions &&
			!before.Assignment.Reclaim.Orphaned()
		if !exists && before.State == nil {
			continue
		}
		decision := placement.Decision{}
		if exists {
			decision = placement.Decide(before.Placed(), in.Brokers, in.options(key, topic, before))
		} else {
			decision.Partition = placement.Retire(before.State.Partition)
		}
		next := nextState(before.State, decision.Partition)
		if !in.LeaveISR || !onlyISRDiffers(before.State, next) {
			s.PutState(key, next)
		}
		after, _ := s.Get(key)
		all = append(all, Decided{Key: key, Before: before, After: after, Retired: !exists,
			Decision: decision})
	}
	return all
}

func (in Input) options(key Key, topic Topic, before Entry) placement.Options {
	return placement.Options{
		AllowUnclean:       topic.AllowUnclean,
		ReplicaIncarnation: in.Incarnation,
		AcceptedDataLoss:   topic.AcceptedDataLoss[key.Index],
		PreferLeader: in.Preferred != nil && in.Preferred(key) || before.State != nil &&
			before.State.Prefer != 0 && before.State.Prefer == before.State.LeaderEpoch,
	}
}

// nextState returns the state after a decision. In a new leader epoch, the leader has not yet
// reported that it serves, and requests from earlier leader epochs are void.
func nextState(before *State, decided placement.Partition) State {
	next := State{Partition: decided}
	next.Target = nil
	if before != nil && before.LeaderEpoch == decided.LeaderEpoch {
		next.Serving = before.Serving
		if before.Prefer == decided.LeaderEpoch {
			next.Prefer = before.Prefer
		}
	}
	return next
}

// onlyISRDiffers reports whether a decision changes only the ISR of a partition whose leader
// serves.
func onlyISRDiffers(before *State, next State) bool {
	if before == nil || !before.Serving || before.Leader == placement.NoLeader {
		return false
	}
	next.ISR = before.ISR
	next.LeaderDirectory = before.LeaderDirectory
	return reflect.DeepEqual(next.Partition, before.Partition) && next.Prefer == before.Prefer
}
