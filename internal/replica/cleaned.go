package replica

import "math"

// cleanedByAll is below which offset every replica of a partition that this broker leads has cleaned its log, and bounds its own cleaner
// by it: tombstones and markers at or above it stay. A replica that has not said, in this leader epoch, stands for 0.
//
// A replica that was away for longer than tombstones are kept would else come back with a value whose tombstone is gone everywhere
// else, and, were it ever elected, with the deleted key (docs/replication.md).
func cleanedByAll(p *partition, r *role) int64 {
	if len(r.replicas) == 1 {
		p.log.SetReplicasCleaned(math.MaxInt64)
		return p.log.CleanedTo()
	}
	cleaned := r.reign.cleaned(p.log.CleanedTo())
	p.log.SetReplicasCleaned(cleaned)
	return cleaned
}

// boundCleaning bounds the cleaner of a log whose role was just given to it: a follower has not been told anything yet.
func boundCleaning(p *partition, before, r *role) {
	switch {
	case r.reign != nil:
		cleanedByAll(p, r)
	case before == nil || before.epoch != r.epoch:
		p.log.SetReplicasCleaned(0)
	}
}
