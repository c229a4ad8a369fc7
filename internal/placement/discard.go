package placement

import (
	"cmp"
	"slices"
)

// Discard is a broker's request to discard its log of a partition and to copy it again. Records of
// the log are damaged and cannot be replaced, but the log still serves the others (ADR 0353).
type Discard struct {
	Broker      int32
	Incarnation string // incarnation id of the log
	Next        string // new, unique incarnation id of the replica
	MinInSync   int    // minInSyncReplicas of the topic
}

// DiscardLog returns the partition after a Discard, like LoseLog. Unlike a loss, a Discard is a
// choice: it is refused unless min(minInSyncReplicas, size of the ISR), but at least one, other
// members of the ISR are healthy: up in the recorded broker epoch and not leaving. The caller must
// write the result by compare-and-swap. So of several replicas with damage, only as many leave the
// ISR at the same time as the partition can do without.
//
// If a leader is refused while a replica is being copied, a healthy member becomes the leader: the
// copy would stop at the damaged records, and the refusal would last.
func DiscardLog(p Partition, d Discard, brokers map[int32]BrokerState) Partition {
	if d.granted(p, brokers) {
		return LoseLog(p, d.Broker, d.Incarnation, d.Next)
	}
	if successor, ok := d.successor(p, brokers); ok {
		p = p.clone()
		p.Leader, p.LeaderDirectory = successor.Broker, cmp.Or(successor.Directory, p.LeaderDirectory)
		p.LeaderEpoch++
	}
	return p
}

// Changes reports whether DiscardLog changes the partition.
func (d Discard) Changes(p Partition, brokers map[int32]BrokerState) bool {
	_, handsOver := d.successor(p, brokers)
	return handsOver || d.granted(p, brokers)
}

func (d Discard) granted(p Partition, brokers map[int32]BrokerState) bool {
	return d.concerns(p) &&
		len(d.healthy(p, brokers)) >= max(1, min(d.MinInSync, len(p.ISR)))
}

// concerns reports whether the log is the one of the recorded incarnation.
func (d Discard) concerns(p Partition) bool {
	id, known := p.ReplicaIncarnations[d.Broker]
	return known && id == d.Incarnation
}

// healthy returns the other members of the ISR that are healthy.
func (d Discard) healthy(p Partition, brokers map[int32]BrokerState) []InSyncReplica {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(m InSyncReplica) bool {
		b := brokers[m.Broker]
		return m.Broker == d.Broker || b.Liveness != Up || b.Epoch != m.Epoch || b.Leaving
	})
}

// successor returns the member that replaces a damaged leader.
func (d Discard) successor(p Partition, brokers map[int32]BrokerState) (m InSyncReplica, ok bool) {
	copying := slices.ContainsFunc(p.Replicas, func(id int32) bool {
		return brokers[id].Liveness == Up && !slices.Contains(ids(p.ISR), id)
	})
	healthy := d.healthy(p, brokers)
	if !copying || len(healthy) == 0 || p.Leader != d.Broker || p.FoundEpoch != nil || !d.concerns(p) {
		return m, false
	}
	return healthy[0], true
}
