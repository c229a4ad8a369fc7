package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
)

// storeError says what an error of the partition means to clients of the coordinator.
func storeError(err error) error {
	switch {
	case errors.Is(err, replica.ErrNotLeader),
		errors.Is(err, replica.ErrFencedLeaderEpoch),
		errors.Is(err, logstore.ErrStorage),
		errors.Is(err, logstore.ErrClosed),
		errors.Is(err, replica.ErrUnknownLeaderEpoch):
		return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
	case errors.Is(err, record.ErrMessageTooLarge), errors.Is(err, logstore.ErrBatchTooLarge):
		return fmt.Errorf("%w: %w", group.ErrRecordTooLarge, err)
	default:
		return fmt.Errorf("%w: %w", ErrNotAvailable, err)
	}
}

// result is what came of a call in the shard's goroutine.
type result[T any] struct {
	value T
	err   error
	last  int64
}

// call runs f in a shard's goroutine, and returns what it returned once that is safe.
func call[T any](ctx context.Context, s *shard, f func(now time.Time) (T, group.Output, error)) (T,
	error) {
	done := make(chan result[T], 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			value, out, err := f(now)
			if stored := s.settle(now, out); err == nil {
				err = stored
			}
			done <- result[T]{value, err, s.last}
		},
		fail: func(err error) { done <- result[T]{err: err, last: -1} },
	})
	return await(ctx, s, pushed, done)
}

// await waits for what came of a call that was pushed, and until it is safe.
func await[T any](ctx context.Context, s *shard, pushed bool, done <-chan result[T]) (T, error) {
	var zero T
	if !pushed {
		return zero, s.refusal()
	}
	select {
	case got := <-done:
		if got.err == nil {
			got.err = s.safe(ctx, got.last)
		}
		return got.value, got.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// store has a shard store what prepare says, together with what others store at the same time, and
// returns what prepare did, once it is safe.
func store[T any](ctx context.Context, s *shard,
	prepare func(now time.Time) (T, group.Output, error)) (T, error) {
	done := make(chan result[T], 1)
	var got result[T]
	pushed := s.push(event{
		prepare: func(now time.Time) (out group.Output) {
			got.value, out, got.err = prepare(now)
			return out
		},
		stored: func(err error) { done <- result[T]{got.value, cmp.Or(got.err, err), s.last} },
		fail:   func(err error) { done <- result[T]{err: err, last: -1} },
	})
	return await(ctx, s, pushed, done)
}

// refusal is why a shard takes no requests.
func (s *shard) refusal() error {
	select {
	case <-s.done:
		return ErrNotCoordinator
	default:
		return s.reason()
	}
}

// safe waits until an offset is below the high watermark.
func (s *shard) safe(ctx context.Context, last int64) error {
	if err := s.runtime.opts.Replicas.Await(ctx, s.id, s.epoch, last, commitWait); err != nil {
		return storeError(err)
	}
	return nil
}

// wait runs f with a token, and waits for the token's answer, however long that takes.
func (s *shard) wait(ctx context.Context,
	f func(now time.Time, to group.Token) group.Output) (group.Answer, error) {
	done := make(chan answered, 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			s.token++
			s.waiting[s.token] = done
			// an error goes to the token, or the state is broken and unload answers
			_ = s.settle(now, f(now, s.token))
		},
		fail: func(err error) { done <- answered{group.Answer{Err: err}, -1} },
	})
	if !pushed {
		return group.Answer{}, s.refusal()
	}
	select {
	case got := <-done:
		if got.Err == nil {
			got.Err = s.safe(ctx, got.last)
		}
		return got.Answer, got.Err
	case <-ctx.Done():
		return group.Answer{}, ctx.Err()
	}
}

// of finds the shard of a group whose id is as wanted.
func (r *Runtime) of(groupID string, mayBeEmpty bool) (*shard, error) {
	if groupID == "" && !mayBeEmpty {
		return nil, group.ErrInvalidGroup
	}
	if err := group.CheckID(groupID); err != nil {
		return nil, err
	}
	return r.shard(groupID)
}

// Join waits until the group's next generation is made. Of its error group.ErrMemberIDRequired,
// Joined.Member is the id.
func (r *Runtime) Join(ctx context.Context, j group.Join) (group.Joined, error) {
	s, err := r.of(j.Group, false)
	if err != nil {
		return group.Joined{Generation: -1, Member: j.Member}, err
	}
	a, err := s.wait(ctx, func(now time.Time, to group.Token) group.Output {
		j.To = to
		return s.state.Join(now, j)
	})
	if err != nil && a.To == 0 {
		a.Joined = group.Joined{Generation: -1, Member: j.Member}
	}
	return a.Joined, err
}

// Sync waits until the leader has assigned.
func (r *Runtime) Sync(ctx context.Context, q group.Sync) (group.Synced, error) {
	s, err := r.of(q.Group, false)
	if err != nil {
		return group.Synced{}, err
	}
	a, err := s.wait(ctx, func(now time.Time, to group.Token) group.Output {
		q.To = to
		return s.state.Sync(now, q)
	})
	return a.Synced, err
}

// Heartbeat says that a member lives. It does not wait for the high watermark: it tells of nothing
// stored.
func (r *Runtime) Heartbeat(ctx context.Context, groupID, memberID, instance string,
	generation int32) error {
	s, err := r.of(groupID, false)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			done <- s.state.Heartbeat(now, groupID, memberID, instance,
				generation)
		},
		fail: func(err error) { done <- err },
	})
	if !pushed {
		return s.refusal()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave takes members out of a group; errors of each, in their order, or one for all.
func (r *Runtime) Leave(ctx context.Context, groupID string, leavers []group.Leaver) ([]error,
	error) {
	s, err := r.of(groupID, false)
	if err != nil {
		return nil, err
	}
	return call(ctx, s, func(now time.Time) ([]error, group.Output, error) {
		errs, out := s.state.Leave(now, groupID, leavers)
		return errs, out, nil
	})
}

// Commit stores offsets; errors of each, in their order, or one for all.
func (r *Runtime) Commit(ctx context.Context, c group.Commit) ([]error, error) {
	s, err := r.of(c.Group, true)
	if err != nil {
		return nil, err
	}
	errs, err := store(ctx, s,
		func(now time.Time) ([]error, group.Output, error) { return s.state.Commit(now, c) })
	if err == nil {
		r.metrics.committed.Add(float64(len(errs)))
	}
	return errs, err
}

// Committed returns the offsets of partitions, -1 where there is none, in their order; of nil all
// there are.
func (r *Runtime) Committed(ctx context.Context, groupID string,
	of []group.TopicPartition) ([]group.CommitOffset, error) {
	return r.CommittedTo(ctx, groupID, group.Reader{Epoch: -1}, of)
}

// CommittedTo is Committed for a member, which has to be in the epoch that it says.
func (r *Runtime) CommittedTo(
	ctx context.Context, groupID string, to group.Reader, of []group.TopicPartition,
) ([]group.CommitOffset, error) {
	s, err := r.of(groupID, true)
	if err != nil {
		return nil, err
	}
	return call(ctx, s, func(time.Time) ([]group.CommitOffset, group.Output, error) {
		if err := s.state.MayFetch(groupID, to); err != nil {
			return nil, group.Output{}, err
		}
		if of == nil {
			return s.state.AllCommitted(groupID), group.Output{}, nil
		}
		found := make([]group.CommitOffset, len(of))
		for i, at := range of {
			o, ok := s.state.Committed(groupID, at.Topic, at.Partition)
			if !ok {
				o = group.Offset{Offset: -1, LeaderEpoch: -1}
			}
			found[i] = group.CommitOffset{Topic: at.Topic, Partition: at.Partition, Offset: o}
		}
		return found, group.Output{}, nil
	})
}

// DeleteOffsets forgets offsets; errors of each, in their order, or one for all.
func (r *Runtime) DeleteOffsets(ctx context.Context, groupID string,
	of []group.TopicPartition) ([]error, error) {
	s, err := r.of(groupID, true)
	if err != nil {
		return nil, err
	}
	return call(ctx, s, func(time.Time) ([]error, group.Output,
		error) {
		return s.state.DeleteOffsets(groupID, of)
	})
}

// Delete forgets a group without members.
func (r *Runtime) Delete(ctx context.Context, groupID string) error {
	s, err := r.of(groupID, true)
	if err != nil {
		return err
	}
	_, err = call(ctx, s, func(time.Time) (struct{}, group.Output, error) {
		out, err := s.state.Delete(groupID)
		return struct{}{}, out, err
	})
	return err
}

// Describe returns a group.
func (r *Runtime) Describe(ctx context.Context, groupID string) (group.Description, error) {
	s, err := r.of(groupID, false)
	if err != nil {
		return group.Description{}, err
	}
	return call(ctx, s, func(time.Time) (group.Description, group.Output, error) {
		d, err := s.state.Describe(groupID)
		return d, group.Output{}, err
	})
}

// List returns all groups of this broker's shards, shard by shard; ErrLoading if one is not ready.
func (r *Runtime) List(ctx context.Context) ([]group.Listing, error) {
	var all []group.Listing
	v := r.view.Load()
	for index := range int32(v.partitions) {
		s := v.shards[index]
		if s == nil {
			continue
		}
		some, err := call(ctx, s,
			func(time.Time) ([]group.Listing, group.Output, error) {
				return s.state.List(),
					group.Output{}, nil
			})
		if err != nil && !errors.Is(err, ErrNotCoordinator) {
			return nil, err
		}
		all = append(all, some...)
	}
	return slices.Clip(all), nil
}

// findWait is how long one may wait for the topic to be made and led.
const findWait = 5 * time.Second

// Find returns the broker that coordinates a group. The first who asks has the topic made.
func (r *Runtime) Find(ctx context.Context, groupID string) (metadata.Broker, error) {
	if err := group.CheckID(groupID); err != nil {
		return metadata.Broker{}, err
	}
	if r.opts.Image().Topic(OffsetsTopic) == nil {
		ctx, cancel := context.WithTimeout(ctx, findWait)
		defer cancel()
		if err := r.create(ctx); err != nil {
			return metadata.Broker{}, fmt.Errorf("%w: %w", ErrNotAvailable, err)
		}
		r.opts.Await(ctx, func(img *metadata.Image) bool {
			_, ok := leader(img, groupID)
			return ok
		})
	}
	if broker, ok := leader(r.opts.Image(), groupID); ok {
		return broker, nil
	}
	return metadata.Broker{}, ErrNotAvailable
}

// leader finds the live leader of a group's partition.
func leader(img *metadata.Image, groupID string) (metadata.Broker, bool) {
	topic := img.Topic(OffsetsTopic)
	if topic == nil || len(topic.Partitions) == 0 {
		return metadata.Broker{}, false
	}
	return img.Broker(topic.Partitions[partitionOf(groupID, len(topic.Partitions))].Leader)
}

// create makes the topic, a resource like any other, with the partitions and replicas that Admin
// gives internal topics. That another broker was first is as good.
func (r *Runtime) create(ctx context.Context) error {
	_, err := r.opts.Admin.CreateTopic(ctx, metadata.NewTopic{
		Name: OffsetsTopic, Partitions: -1, Replicas: -1,
		Properties: map[string]string{
			"cleanup.policy": "compact", "compression.type": "producer",
			"segment.bytes": "104857600",
		},
	})
	if errors.Is(err, metadata.ErrTopicExists) {
		return nil
	}
	return err
}
