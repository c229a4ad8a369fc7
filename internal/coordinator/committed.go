package coordinator

import (
	"context"
	"errors"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/lag"
)

// committedStep is the number of committed offsets after which AllCommitted lets the shard serve
// other requests. Copying this many offsets takes about a millisecond.
const committedStep = 5000

// KeepOffset reports whether AllCommitted includes a partition's committed offset. id is the
// topic's id at the time of the commit, or zero if the client did not send it.
type KeepOffset func(topic string, id [16]byte, partition int32) bool

// AllCommitted returns the committed offsets of all groups that this broker coordinates, except
// offsets for which keep returns false. If some shards cannot answer now, for example because they
// are loading, the result omits their groups, and the error contains the reasons.
func (g *Groups) AllCommitted(ctx context.Context, keep KeepOffset) (all []lag.Committed,
	err error) {
	for _, s := range g.runtime.Shards() {
		committeds, shardErr := allCommitted(ctx, s, keep)
		if shardErr != nil && !errors.Is(shardErr, ErrNotCoordinator) {
			err = errors.Join(err, shardErr)
			continue
		}
		all = append(all, committeds...)
	}
	return all, err
}

// allCommitted returns the committed offsets of one shard's groups. A group that is deleted during
// the call may be missing.
func allCommitted(ctx context.Context, s *shard, keep KeepOffset) ([]lag.Committed, error) {
	groups, err := query(ctx, s, func(s *groupShard) ([]string, error) {
		return s.WithOffsets(), nil
	})
	if err != nil {
		return nil, err
	}
	var all []lag.Committed
	for len(groups) > 0 {
		// If ctx ends, the shard may still run this step, so the step must not share a variable with this
		// function.
		read, err := query(ctx, s, committedOf(groups, keep))
		if err != nil {
			return nil, err
		}
		all = append(all, read.committed...)
		groups = groups[read.groups:]
	}
	return all, nil
}

// committedRead is the result of one step of allCommitted: the offsets of the first remaining
// groups.
type committedRead struct {
	groups    int
	committed []lag.Committed
}

// committedOf returns a function that reads the offsets of groups until it has read committedStep
// offsets.
func committedOf(groups []string, keep KeepOffset) func(*groupShard) (committedRead, error) {
	return func(s *groupShard) (read committedRead, _ error) {
		for n := 0; read.groups < len(groups) && n < committedStep; read.groups++ {
			id := groups[read.groups]
			offsets := s.AllCommitted(id)
			read.committed = appendCommitted(read.committed, id, offsets, keep)
			n += len(offsets)
		}
		return read, nil
	}
}

// appendCommitted appends a group's offsets, which are sorted by topic, to all. It omits offsets
// for which keep returns false.
func appendCommitted(all []lag.Committed, groupID string, offsets []group.CommitOffset,
	keep KeepOffset) []lag.Committed {
	begin := len(all)
	for i := range offsets {
		o := &offsets[i]
		if !keep(o.Topic, o.TopicID, o.Partition) {
			continue
		}
		if n := len(all); n == begin || all[n-1].Topic != o.Topic {
			all = append(all, lag.Committed{Group: groupID, Topic: o.Topic})
		}
		last := &all[len(all)-1]
		last.Offsets = append(last.Offsets,
			lag.Offset{Partition: o.Partition, Offset: o.Offset.Offset})
	}
	return all
}
