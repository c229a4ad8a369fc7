package replica

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/logstore"
)

// fetch sends one fetch and applies the response.
func (f *fetcher) fetch(ctx context.Context, peer Peer, request *FollowerFetch,
	all map[PartitionID]*followedPartition) error {
	fetching, cancel := context.WithTimeout(ctx, request.Wait+followerFetchTimeout)
	defer cancel()
	if f.beginFetch(peer, cancel) {
		request.Wait = 0
	}
	response, err := peer.Fetch(fetching, request)
	f.mu.Lock()
	f.mu.peer, f.mu.interrupt = nil, nil
	f.mu.Unlock()
	if err != nil {
		if errors.Is(fetching.Err(), context.Canceled) && ctx.Err() == nil {
			return errInterrupted
		}
		return err
	}
	f.noteAnswer()
	f.applyAll(all, response.Partitions, time.Now())
	f.session.Succeeded(response.Session)
	if f.fsync {
		f.awaitSync(ctx)
	}
	return nil
}

// beginFetch registers a fetch, so that setPartitions can interrupt it. It reports whether the
// partitions have changed since the request was built. In that case, the fetch must not wait.
func (f *fetcher) beginFetch(peer Peer, cancel context.CancelFunc) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.peer, f.mu.interrupt = peer, cancel
	return f.version != f.mu.version || len(f.mu.applied) > 0 || len(f.mu.stopped) > 0
}

func (f *fetcher) leader() int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.leader.ID
}

// applyAll applies the leader's results, several partitions at a time. Most results are only
// written to the page cache. applyAll passes results that must wait for the disk to applyLater.
func (f *fetcher) applyAll(all map[PartitionID]*followedPartition, results []FollowerResult,
	now time.Time) {
	var workers errgroup.Group
	workers.SetLimit(applyConcurrency)
	for i := range results {
		got := &results[i]
		fp := all[got.ID]
		if fp == nil || fp.busy || fp.answered == f.fetches {
			// Either the partition is not followed, or the response contains it twice; the second result
			// would use the same fp in another goroutine.
			continue
		}
		sent, ok := f.session.Sent(fp.key())
		if !ok {
			continue // the partition was not requested
		}
		fp.answered = f.fetches
		f.markDirty(fp)
		role := fp.sentRole
		switch {
		case f.applyLater(fp, &sent, got, now):
		case len(results) == 1:
			f.apply(fp, role, &sent, got, now)
		default:
			workers.Go(func() error {
				f.apply(fp, role, &sent, got, now)
				return nil
			})
		}
	}
	_ = workers.Wait() // apply handles the errors
}

// apply applies the leader's result for one partition.
func (f *fetcher) apply(fp *followedPartition, sentRole *role, sent *FollowerPartition,
	got *FollowerResult, now time.Time) {
	p := fp.partition
	advanced, err := p.applyResponse(sentRole, sent, got, now)
	if advanced {
		f.set.notifyConsumers(p.id)
	}
	if err != nil {
		f.fail(fp, err, now)
		return
	}
	fp.failures = 0
	p.followFault.Store(nil)
}

// fail delays the next fetch of a partition after an error. It does not log errors that are usual
// during a failover, such as the response of a new leader that has not begun its leader epoch yet.
func (f *fetcher) fail(fp *followedPartition, err error, now time.Time) {
	fp.retryAt = now.Add(backoff(fp.failures))
	fp.failures++
	if isTransient(err) {
		return
	}
	p := fp.partition
	if last := p.followFault.Load(); last == nil || (*last).Error() != err.Error() {
		level := slog.LevelWarn
		if errors.Is(err, errTruncatesCommitted) {
			level = slog.LevelError
		}
		f.set.logger.Log(context.Background(), level, "failed to follow leader", "partition", p.id,
			"error", err)
	}
	p.followFault.Store(&err)
}

func isTransient(err error) bool {
	for _, known := range []error{ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch,
		ErrUnknownPartition, ErrInconsistentTopicID, ErrStaleReplica, logstore.ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// awaitSync waits until all appended records are synced, or until a sync has failed.
func (f *fetcher) awaitSync(ctx context.Context) {
	for _, fp := range f.dirty {
		log := fp.partition.log
		for log.DurableEnd() < log.LogEnd() && log.Fault() == nil {
			select {
			case <-f.synced:
			case <-f.wake: // a role may have changed, and a log may be closed
				signal(f.wake)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
