package replica

import "math"

// updateCleaningProgress computes the replicated cleaning progress of a partition that this broker
// leads: the smallest tombstone-clean offset over all replicas. Below it no replica holds a record
// that is older than a tombstone of its key. This broker's own cleaner keeps the tombstones and
// transaction markers at or above it. The offset of a replica that has not reported it in this
// leader epoch is taken as 0.
//
// Without this bound a replica that was away for longer than the tombstone retention would return
// with a value whose tombstone is gone everywhere else, and would serve the deleted key once
// elected. A consumer that read a value on a replica that has not removed it yet would miss the
// tombstone on the next replica (docs/replication-compacted.md).
func updateCleaningProgress(p *partition, r *role) int64 {
	if len(r.replicas) == 1 {
		p.log.Compaction().SetReplicasTombstoneClean(math.MaxInt64)
		return p.log.Compaction().TombstoneClean()
	}
	progress := r.leaderState.tombstoneCleanOffset(p.log.Compaction().TombstoneClean())
	p.log.Compaction().SetReplicasTombstoneClean(progress)
	return progress
}

// resetCleaningProgress sets the progress for a new role: a new follower has not received the
// progress from its leader yet.
func resetCleaningProgress(p *partition, before, r *role) {
	switch {
	case r.leaderState != nil:
		updateCleaningProgress(p, r)
	case before == nil || before.epoch != r.epoch:
		p.log.Compaction().SetReplicasTombstoneClean(0)
	}
}
