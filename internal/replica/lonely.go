package replica

import "math"

// lonelyInAll is below which offset every tombstone is lonely in every replica of a partition that
// this broker leads: no log holds anything older of its key. It bounds this broker's own cleaner by
// it, too: tombstones and markers at or above it stay. A replica that has not said, in this leader
// epoch, stands for 0.
//
// A replica that was away for longer than tombstones are kept would else come back with a value
// whose tombstone is gone everywhere else, and, were it ever elected, with the deleted key; and a
// consumer that has read a value on a replica that has not got round to removing it would miss the
// tombstone on the next (docs/replication.md).
func lonelyInAll(p *partition, r *role) int64 {
	if len(r.replicas) == 1 {
		p.log.Compaction().SetReplicasTombstoneClean(math.MaxInt64)
		return p.log.Compaction().TombstoneClean()
	}
	lonely := r.reign.lonely(p.log.Compaction().TombstoneClean())
	p.log.Compaction().SetReplicasTombstoneClean(lonely)
	return lonely
}

// boundCleaning bounds the cleaner of a log whose role was just given to it: a follower has not
// been told anything yet.
func boundCleaning(p *partition, before, r *role) {
	switch {
	case r.reign != nil:
		lonelyInAll(p, r)
	case before == nil || before.epoch != r.epoch:
		p.log.Compaction().SetReplicasTombstoneClean(0)
	}
}
