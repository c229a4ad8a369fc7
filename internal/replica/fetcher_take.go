package replica

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/logstore"
)

// pull makes one fetch and does what its answer says.
func (f *fetcher) pull(ctx context.Context, peer Peer, request *FollowerFetch,
	all map[PartitionID]*pulling) error {
	fetching, cancel := context.WithTimeout(ctx, request.Wait+pullTimeout)
	defer cancel()
	if f.beginsToWait(peer, cancel) {
		request.Wait = 0 // there is news already
	}
	answer, err := peer.Fetch(fetching, request)
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
	f.takeAll(all, answer.Partitions, time.Now())
	f.saying.answered(answer.Session)
	if f.fsync {
		f.awaitSync(ctx)
	}
	return nil
}

// takeAll does what the leader answered, for many partitions at once: most of it is writes to the
// page cache. What waits for the disk is left to workers.
func (f *fetcher) takeAll(all map[PartitionID]*pulling, results []FollowerResult, now time.Time) {
	var workers errgroup.Group
	workers.SetLimit(takeWorkers)
	for i := range results {
		got := &results[i]
		w := all[got.ID]
		if w == nil || w.busy || w.taken == f.turn {
			continue // named twice: a pulling is one goroutine's
		}
		asked, named := f.saying.said[KeyOf(w.partition.topic, got.ID)]
		if !named {
			continue // not asked for
		}
		w.taken = f.turn
		f.requeue(w)
		role := w.askedAs
		switch {
		case f.settleLater(w, &asked, got, now):
		case len(results) == 1:
			f.take(w, role, &asked, got, now)
		default:
			workers.Go(func() error {
				f.take(w, role, &asked, got, now)
				return nil
			})
		}
	}
	_ = workers.Wait() // each failure is the partition's own
}

func (f *fetcher) leader() int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.leader.ID
}

// beginsToWait lets assign end the wait of the fetch that begins now; true if that has something
// new already, and the fetch not to wait.
func (f *fetcher) beginsToWait(peer Peer, cancel context.CancelFunc) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.peer, f.mu.interrupt = peer, cancel
	return f.version != f.mu.version || len(f.mu.settled) > 0
}

// take does what the leader answered for one partition.
func (f *fetcher) take(w *pulling, as *role, asked *FollowerPartition, got *FollowerResult,
	now time.Time) {
	p := w.partition
	moved, err := p.follow(as, asked, got, now)
	if moved {
		f.set.notifyConsumers(p.id)
	}
	if err != nil {
		f.fail(w, err, now)
		return
	}
	w.failures = 0
	p.stuck.Store(nil)
}

// fail has a partition wait before it is asked for again. A leader that does not know that it is,
// or knows more than we do, is the everyday life of a failover; anything else is told.
func (f *fetcher) fail(w *pulling, err error, now time.Time) {
	w.retryAt = now.Add(backoff(w.failures))
	w.failures++
	if transient(err) {
		return
	}
	p := w.partition
	if told := p.stuck.Load(); told == nil || (*told).Error() != err.Error() {
		f.set.logger.Warn("cannot follow the leader", "partition", p.id, "error", err)
	}
	p.stuck.Store(&err)
}

func transient(err error) bool {
	for _, known := range []error{ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch,
		ErrUnknownPartition, ErrInconsistentTopicID, ErrStaleReplica, logstore.ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// awaitSync waits until what was appended is on the disk, or will not get there.
func (f *fetcher) awaitSync(ctx context.Context) {
	for _, w := range f.changed {
		log := w.partition.log
		for log.SafeEnd() < log.LogEnd() && log.Fault() == nil {
			select {
			case <-f.synced:
			case <-f.wake: // a role may have changed, and the log be closed
				signal(f.wake)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
