package rollout

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/internal/placement"
)

// Broker is the state of a broker and its pod during a rolling update.
type Broker struct {
	// Updated is true if the pod has the latest template and no user has requested its restart. A pod
	// that is missing or being deleted counts as updated, because the next pod will have the latest
	// template.
	Updated bool
	Ready   bool // true if the pod is ready and not being deleted
	// Up is true if the broker renews its Lease. If Kubernetes cannot reach a node, the node's pods
	// are not ready, although their brokers are up.
	Up bool
	// Settling is true if the pod has become ready recently, so that clients may still use the address
	// of the broker's previous pod.
	Settling bool
	Leaders  int // number of partitions that the broker leads
	// Hold is a further reason why the restart must wait, if the broker is serving.
	Hold Hold
}

// Partition is a partition of the LogCluster.
type Partition struct {
	Name string // topic/index
	placement.Stop
	// Lend is true if the broker with the partition's only replica must not be restarted before
	// another broker has a replica; see Lend.
	Lend bool
}

// State is the state of a LogCluster's pods and partitions.
type State struct {
	Brokers    []Broker // by id
	Partitions []Partition
	// Observed is true if the StatefulSet controller has observed the latest spec. Otherwise the pods'
	// templates cannot be compared with the latest template.
	Observed bool
	// Lends is true if partitions with one replica get a second replica before their broker restarts.
	Lends bool
}

// Phase is the phase of a rolling update.
type Phase int

const (
	// Complete means that every pod has the latest template and is ready.
	Complete Phase = iota
	// Restart means that the broker may be restarted now.
	Restart
	// Waiting means that the update continues once the broker is ready and settled, or once the
	// partition has enough in-sync replicas.
	Waiting
	// Held means that all restarts wait for the reason in Decision.Hold.
	Held
)

// Decision is the next step of a rolling update.
type Decision struct {
	Phase Phase
	// Broker is the broker to restart, or the broker for which the update is waiting. With phase Held,
	// it is the next broker. It is -1 with phase Complete, and while the StatefulSet controller has
	// not observed the latest spec.
	Broker int32
	// Partition is the partition that needs Broker now, because too few other replicas are in sync; ""
	// if the update is waiting for another reason.
	Partition string
	Outdated  int // number of brokers with Updated false; 0 if Observed is false
	Hold      Hold
}

// Next returns the next step of a rolling update.
//
// A broker that is neither ready nor up serves no clients and is restarted at once. Otherwise the
// update could not replace a template whose pods do not start. Every other restart requires that
//   - no other broker is being replaced: each pod with the latest template is ready and settled.
//     So a template that does not start stops the update at the first broker;
//   - every partition keeps enough in-sync replicas (placement.Stop), also one with a single
//     replica if Partition.Lend is set;
//   - the broker has no Hold.
//
// Of the brokers that can be restarted, a broker that is not ready comes first, because a serving
// broker must not be unavailable at the same time. Of the other brokers, the broker that leads the
// fewest partitions comes first, and among equals the broker with the highest id. A partition with
// too few in-sync replicas blocks only the brokers that hold its replicas.
func Next(s State) Decision {
	if !s.Observed {
		return Decision{Phase: Waiting, Broker: -1}
	}
	outdated := s.outdated()
	decision := Decision{Phase: Waiting, Broker: -1, Outdated: len(outdated)}
	for _, id := range outdated {
		if b := s.Brokers[id]; !b.Ready && !b.Up {
			decision.Phase, decision.Broker = Restart, id
			return decision
		}
	}
	if id := s.unsettled(); id >= 0 && (len(outdated) > 0 || !s.Brokers[id].Ready) {
		decision.Broker = id
		return decision
	}
	if len(outdated) == 0 {
		decision.Phase = Complete
		return decision
	}
	held := Decision{Phase: Held, Broker: -1, Outdated: len(outdated)}
	for _, id := range outdated {
		if hold := s.Brokers[id].Hold; hold != NoHold {
			if held.Broker < 0 {
				held.Broker, held.Hold = id, hold
			}
			continue
		}
		blocking := s.Blocking(id)
		if blocking == "" {
			return Decision{Phase: Restart, Broker: id, Outdated: len(outdated)}
		}
		if decision.Broker < 0 {
			decision.Broker, decision.Partition = id, blocking
		}
	}
	if decision.Broker < 0 {
		return held
	}
	return decision
}

// Blocking returns the name of a partition that would have too few in-sync replicas without a
// broker; "" if there is none. If there are several, it returns the first name in alphabetical
// order, whatever the order of the partitions, because the waiting time of an update is measured
// per partition name.
func (s State) Blocking(broker int32) string {
	name, _ := s.blocking(broker)
	return name
}

// blocking is like Blocking. single is true if all blocking partitions have one replica and can be
// lent another one.
func (s State) blocking(broker int32) (name string, single bool) {
	var lendable string
	for i := range s.Partitions {
		p := s.Partitions[i].Stop
		if s.Partitions[i].Lend && len(p.Replicas) == 1 && p.Replicas[0] == broker {
			lendable = smaller(lendable, s.Partitions[i].Name)
			continue
		}
		p.InSync = slices.DeleteFunc(slices.Clone(p.InSync),
			func(id int32) bool { return int(id) >= len(s.Brokers) || !s.Brokers[id].Up })
		if !p.MayStop(broker) {
			name = smaller(name, s.Partitions[i].Name)
		}
	}
	if name == "" {
		return lendable, lendable != ""
	}
	return name, false
}

// smaller returns the first of two names in alphabetical order. The name "" counts as none.
func smaller(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// outdated returns the brokers with Updated false, in the order of their restarts.
func (s State) outdated() []int32 {
	var ids []int32
	for id, b := range s.Brokers {
		if !b.Updated {
			ids = append(ids, int32(id))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		return cmp.Or(s.Brokers[a].rank()-s.Brokers[b].rank(),
			cmp.Compare(s.Brokers[a].Leaders, s.Brokers[b].Leaders), cmp.Compare(b, a))
	})
	return ids
}

// rank returns 0 for a broker that is not ready, otherwise 1.
func (b Broker) rank() int {
	if b.Ready {
		return 1
	}
	return 0
}

// unsettled returns a broker that has the latest template and is not ready, or a broker that is
// settling; -1 if there is neither.
func (s State) unsettled() int32 {
	for id, b := range s.Brokers {
		if b.Updated && !b.Ready {
			return int32(id)
		}
	}
	for id, b := range s.Brokers {
		if b.Settling {
			return int32(id)
		}
	}
	return -1
}
