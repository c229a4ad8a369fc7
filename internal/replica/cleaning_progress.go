package replica

import "math"

// updateCleaningProgress computes the replicated cleaning progress of a partition that this broker
// leads: the smallest tombstone-clean offset over all replicas. For a tombstone below that offset,
// no replica has an older record of the same key. This broker's cleaner keeps all tombstones and
// transaction markers at or above that offset. A replica that has not reported its tombstone-clean
// offset in this leader epoch counts as offset 0.
//
// Without this bound, a replica that was away for longer than the tombstone retention could return
// with a value whose tombstone has been removed on all other brokers. Once elected, the replica
// would serve the deleted key. Also, a consumer could read a value on a replica that has not
// removed it yet, continue on another replica, and miss the tombstone there
// (docs/internals/replication-compacted.md).
func updateCleaningProgress(p *partition, r *role) int64 {
	if len(r.replicas) == 1 {
		p.log.Compaction().Progress.SetReplicasTombstoneClean(math.MaxInt64)
		return p.log.Compaction().Progress.TombstoneClean()
	}
	progress := r.leaderState.tombstoneCleanOffset(p.log.Compaction().Progress.TombstoneClean())
	p.log.Compaction().Progress.SetReplicasTombstoneClean(progress)
	return progress
}

// TombstonesWaitFor returns, in ascending order, the replicas that prevent the removal of a
// tombstone at an offset. It returns none if this broker does not lead the partition.
func (s *Set) TombstonesWaitFor(id PartitionID, offset int64) []int32 {
	p := s.view.Load().partitions[id]
	if p == nil {
		return nil
	}
	r := p.role.Load()
	if r.leaderState == nil {
		return nil
	}
	return r.leaderState.tombstonesWaitFor(offset)
}

// resetCleaningProgress sets the replicated cleaning progress for a new role. A new follower starts
// with 0, because it has not received the progress from its leader yet.
func resetCleaningProgress(p *partition, before, r *role) {
	switch {
	case r.leaderState != nil:
		updateCleaningProgress(p, r)
	case before == nil || before.epoch != r.epoch:
		p.log.Compaction().Progress.SetReplicasTombstoneClean(0)
	}
}
