package rollout

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/internal/placement"
)

// Broker is the state of a broker and its pod during a rolling update.
type Broker struct {
	// Updated is true if the pod has the latest template and its restart was not requested. A pod that
	// is missing or being deleted counts as updated, because the pod that replaces it will be.
	Updated bool
	Ready   bool // the pod is ready and not being deleted
	// Up is true if the broker renews its Lease. The pods of a node that Kubernetes cannot reach
	// are not ready although their brokers are up.
	Up bool
	// Settling is true if the pod has become ready recently: clients may still use the address of
	// the broker's previous pod.
	Settling bool
	Leaders  int // number of partitions that the broker leads
	// Hold is what else the restart must wait for, if the broker serves.
	Hold Hold
}

// Partition is a partition of the LogCluster.
type Partition struct {
	Name string // topic/index
	placement.Stop
	// Lend is true if the broker of the partition's only replica is not restarted before another
	// broker has a replica; see Lend.
	Lend bool
}

// State is the state of a LogCluster's pods and partitions.
type State struct {
	Brokers    []Broker // by id
	Partitions []Partition
	// Observed is true if the StatefulSet controller has observed the latest spec. Otherwise the
	// pods' templates cannot be compared with the latest one.
	Observed bool
	// Lends is true if partitions with one replica get a second one before their broker restarts.
	Lends bool
}

// Phase is the phase of a rolling update.
type Phase int

const (
	// Complete means that every pod has the latest template and is ready.
	Complete Phase = iota
	// Restart means that the broker may be restarted now.
	Restart
	// Waiting means that the update continues when the broker is ready and settled, or when the
	// partition has enough in-sync replicas.
	Waiting
	// Held means that all restarts wait for the reason in Decision.Hold.
	Held
)

// Decision is the next step of a rolling update.
type Decision struct {
	Phase Phase
	// Broker is the broker to restart, or the broker that the update waits for; with Held, the next
	// broker. It is -1 with Complete, and while the StatefulSet controller has not observed the
	// latest spec.
	Broker int32
	// Partition is the partition that Broker must not leave now; "" if the update waits for
	// another reason.
	Partition string
	Outdated  int // number of brokers with Updated false; 0 if Observed is false
	Hold      Hold
}

// Next returns the next step of a rolling update.
//
// A broker that is neither ready nor up serves no clients and is restarted at once. Otherwise a
// template that does not start could not be replaced. Every other restart requires that
//   - no other broker is being replaced: each pod with the latest template is ready and settled.
//     So a template that does not start stops the update at the first broker;
//   - every partition keeps enough in-sync replicas (placement.Stop), also one with a single
//     replica if Partition.Lend is set;
//   - the broker has no Hold.
//
// Of the brokers that may be restarted, a broker that is not ready is first, because a serving
// broker must not be unavailable at the same time. Of the others, the broker that leads the fewest
// partitions is first; among equals, the one with the highest id. A partition with too few in-sync
// replicas blocks only the brokers that hold its replicas.
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

// Blocking returns the name of a partition that has too few in-sync replicas without a broker; ""
// if there is none. Of several partitions it returns the smallest name, whatever their order is,
// because the time for which an update has waited is measured for each partition name.
func (s State) Blocking(broker int32) string {
	name, _ := s.blocking(broker)
	return name
}

// blocking is like Blocking. single is true if only partitions with one replica, to which another
// one can be lent, are blocking.
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

// smaller returns the smaller of two names; "" is no name.
func smaller(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// outdated returns the brokers with Updated false, in the order in which they are restarted.
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

// rank returns 0 for a broker that is not ready, and 1 for one that is.
func (b Broker) rank() int {
	if b.Ready {
		return 1
	}
	return 0
}

// unsettled returns a broker with the latest template that is not ready, or a broker that is
// settling; -1 if there is none.
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
