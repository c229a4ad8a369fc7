package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
)

// shard returns the shard that serves a group. emptyAllowed must be set for the APIs that accept an
// empty group id.
func (g *Groups) shard(groupID string, emptyAllowed bool) (*shard, error) {
	if groupID == "" && !emptyAllowed {
		return nil, group.ErrInvalidGroup
	}
	if err := group.CheckID(groupID); err != nil {
		return nil, err
	}
	return g.runtime.Shard(groupID)
}

// Join waits for the group's next generation. If it returns group.ErrMemberIDRequired, the client
// must join again with the member id in Joined.Member.
func (g *Groups) Join(ctx context.Context, j group.Join) (group.Joined, error) {
	s, err := g.shard(j.Group, false)
	if err != nil {
		return group.Joined{Generation: -1, Member: j.Member}, err
	}
	a, err := runtime.Wait(ctx, s, func(now time.Time, s *groupShard, to group.Token) group.Output {
		j.To = to
		return s.Join(now, j)
	})
	if err != nil && a.To == 0 {
		return group.Joined{Generation: -1, Member: j.Member}, err
	}
	return a.Result.Joined, err
}

// Sync waits until the group's leader has sent the assignments, and returns the member's
// assignment.
func (g *Groups) Sync(ctx context.Context, q group.Sync) (group.Synced, error) {
	s, err := g.shard(q.Group, false)
	if err != nil {
		return group.Synced{}, err
	}
	a, err := runtime.Wait(ctx, s, func(now time.Time, s *groupShard, to group.Token) group.Output {
		q.To = to
		return s.Sync(now, q)
	})
	return a.Result.Synced, err
}

// Heartbeat renews the session of a member that uses the classic protocol. It does not wait for the
// high watermark, because its answer reveals no stored state.
func (g *Groups) Heartbeat(ctx context.Context, groupID, memberID, instance string,
	generation int32) error {
	s, err := g.shard(groupID, false)
	if err != nil {
		return err
	}
	return runtime.CallVolatile(ctx, s, func(now time.Time, s *groupShard) error {
		return s.Heartbeat(now, groupID, memberID, instance, generation)
	})
}

// Leave removes members from a group. It returns one error per member, in the order of leavers, or
// a single error for the whole request.
func (g *Groups) Leave(ctx context.Context, groupID string, leavers []group.Leaver) ([]error,
	error) {
	s, err := g.shard(groupID, false)
	if err != nil {
		return nil, err
	}
	return runtime.Call(ctx, s, func(now time.Time, s *groupShard) ([]error, group.Output, error) {
		errs, out := s.Leave(now, groupID, leavers)
		return errs, out, nil
	})
}

// Commit stores offsets. It returns one error per offset, in the order of c.Offsets, or a single
// error for the whole request.
func (g *Groups) Commit(ctx context.Context, c group.Commit) ([]error, error) {
	s, err := g.shard(c.Group, true)
	if err != nil {
		return nil, err
	}
	errs, err := runtime.Store(ctx, s,
		func(now time.Time, s *groupShard) ([]error, group.Output,
			error) {
			return s.Commit(now, c)
		})
	if err == nil {
		g.metrics.committed.Add(float64(len(errs)))
	}
	return errs, err
}

// Committed returns the committed offsets of the given partitions, in the same order. Offset is -1
// for a partition without a committed offset. If partitions is nil, Committed returns all offsets
// of the group.
func (g *Groups) Committed(ctx context.Context, groupID string,
	partitions []group.TopicPartition) ([]group.CommitOffset, error) {
	found, _, err := g.CommittedFor(ctx, groupID, group.Reader{Epoch: -1}, partitions)
	return found, err
}

// CommittedFor is like Committed, but checks the reader: a member of the consumer protocol must
// send its current epoch. CommittedFor also reports, for each result, whether an open transaction
// has a pending offset for the partition. In that case, a reader that requires stable offsets must
// not use the result: it would read the transaction's input again (KIP-447).
func (g *Groups) CommittedFor(ctx context.Context, groupID string, reader group.Reader,
	partitions []group.TopicPartition) (found []group.CommitOffset, unstable []bool, err error) {
	s, err := g.shard(groupID, true)
	if err != nil {
		return nil, nil, err
	}
	found, err = query(ctx, s, func(s *groupShard) ([]group.CommitOffset, error) {
		if err := s.CheckFetch(groupID, reader); err != nil {
			return nil, err
		}
		all := s.committed(groupID, partitions)
		unstable = make([]bool, len(all))
		for i, o := range all {
			unstable[i] = !s.IsStable(groupID, o.Topic, o.Partition)
		}
		return all, nil
	})
	return found, unstable, err
}

// committed returns the committed offsets of the given partitions, or all offsets of the group if
// partitions is nil.
func (s *groupShard) committed(groupID string,
	partitions []group.TopicPartition) []group.CommitOffset {
	if partitions == nil {
		return s.AllCommitted(groupID)
	}
	found := make([]group.CommitOffset, len(partitions))
	for i, p := range partitions {
		o, ok := s.Committed(groupID, p.Topic, p.Partition)
		if !ok {
			o = group.Offset{Offset: -1, LeaderEpoch: -1}
		}
		found[i] = group.CommitOffset{Topic: p.Topic, Partition: p.Partition, Offset: o}
	}
	return found
}

// DeleteOffsets deletes committed offsets. It returns one error per partition, in the order of
// partitions, or a single error for the whole request.
func (g *Groups) DeleteOffsets(ctx context.Context, groupID string,
	partitions []group.TopicPartition) ([]error, error) {
	s, err := g.shard(groupID, true)
	if err != nil {
		return nil, err
	}
	return runtime.Call(ctx, s, func(_ time.Time, s *groupShard) ([]error, group.Output, error) {
		return s.DeleteOffsets(groupID, partitions)
	})
}

// Delete deletes a group. The group must have no members.
func (g *Groups) Delete(ctx context.Context, groupID string) error {
	s, err := g.shard(groupID, true)
	if err != nil {
		return err
	}
	_, err = runtime.Call(ctx, s, func(_ time.Time, s *groupShard) (struct{}, group.Output, error) {
		out, err := s.Delete(groupID)
		return struct{}{}, out, err
	})
	return err
}

// Describe returns the description of a group of the classic protocol.
func (g *Groups) Describe(ctx context.Context, groupID string) (group.Description, error) {
	s, err := g.shard(groupID, false)
	if err != nil {
		return group.Description{}, err
	}
	return query(ctx, s, func(s *groupShard) (group.Description, error) {
		return s.Describe(groupID)
	})
}

// List returns all groups that this broker coordinates, or ErrLoading if one of the shards is not
// loaded yet.
func (g *Groups) List(ctx context.Context) ([]group.Listing, error) {
	var all []group.Listing
	for _, s := range g.runtime.Shards() {
		listed, err := query(ctx, s,
			func(s *groupShard) ([]group.Listing, error) { return s.List(), nil })
		if err != nil && !errors.Is(err, ErrNotCoordinator) {
			return nil, err
		}
		all = append(all, listed...)
	}
	return slices.Clip(all), nil
}

// query runs a read-only function in the shard's goroutine. It returns the function's value once
// every record on which the value may depend is below the high watermark.
func query[T any](ctx context.Context, s *shard, f func(*groupShard) (T, error)) (T, error) {
	return runtime.Call(ctx, s, func(_ time.Time, s *groupShard) (T, group.Output, error) {
		value, err := f(s)
		return value, group.Output{}, err
	})
}
