package logstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// commitWorkersMax bounds how many logs of a store are synced concurrently for producers that
	// wait. Filesystems combine concurrent syncs into one write of their journal, so a few
	// concurrent syncs are cheaper than sequential ones. Each sync occupies a thread while it runs.
	commitWorkersMax = 16
	// flushBytesDefault, like flushIntervalDefault, bounds the data that a power failure can remove
	// from one log, as long as the disk keeps up with the appends.
	flushBytesDefault = 64 << 20
)

// DurableEnd returns the durable end offset, which depends on the topic's durability: the log end,
// or under Fsync the end of the synced records. A high watermark that is computed from the durable
// ends of the in-sync replicas exposes no record to consumers that can be lost (ADR 0050). The
// durable end falls when a topic changes to Fsync; the high watermark does not.
func (l *Log) DurableEnd() int64 {
	if !l.Settings().Fsync {
		return l.logEnd.Load()
	}
	// synced is lowered before the log end, and raised after it, so it never exceeds an end that
	// the log had.
	return min(l.disk.synced.Load(), l.logEnd.Load())
}

// appended requests the sync that an append needs: under Fsync at once, otherwise once many bytes
// are unsynced. It is called after each append, without Log.mu. A duplicate also requests a sync:
// the original batch may not be synced yet, or may have been appended before the topic changed to
// Fsync.
func (l *Log) appended(config *config) {
	switch {
	case config.settings.Fsync:
		if l.disk.synced.Load() < l.logEnd.Load() {
			l.env.commit(l)
		}
	case l.unsynced.Load() > l.env.flushBytes:
		l.unsynced.Store(0) // the next request is due after another flushBytes bytes
		l.env.commit(l)
	}
}

// commit makes all records durable that were appended before the call: one sync covers all appends
// since the previous sync. Unlike flush it seals nothing and does not acquire Log.maintain, so a
// producer waits for a sync of its log only, and never for a swap of the cleaner. Appends continue
// concurrently. Segment.Sync runs one sync of a segment at a time, so that no caller mistakes a
// second sync that succeeds after a failed one for a success.
func (l *Log) commit() error {
	l.mu.Lock()
	end, truncations, stopped := l.logEnd.Load(), l.truncations.Load(), l.mu.stopped
	list := l.acquire() // rolls hold Log.mu: the last segment of the list holds end
	l.mu.Unlock()
	if list == nil {
		return ErrClosed
	}
	defer list.release()
	if stopped != nil || end <= l.disk.synced.Load() {
		return stopped
	}
	began := time.Now()
	for _, h := range list.handles[list.floor(l.disk.synced.Load()):] {
		if err := h.Sync(); err != nil {
			return l.syncFailed(h, err)
		}
	}
	l.syncs.add(time.Since(began))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.truncations.Load() != truncations {
		return nil // the log was truncated meanwhile: records appended later may be below end
	}
	l.disk.syncedTo(end)
	return nil
}

// syncMeter counts the syncs of a log and the time that they took. Both values only rise.
type syncMeter struct {
	count atomic.Int64
	spent atomic.Int64 // ns of wall clock
}

func (m *syncMeter) add(took time.Duration) {
	m.spent.Add(int64(took))
	m.count.Add(1)
}

// committer syncs the logs whose producers wait for a sync. It runs one sync per log at a time: the
// next sync covers everything that is appended during the current one. Its goroutines start when a
// log is queued and end when the queue is empty.
type committer struct {
	// synced is called after each sync of a log, successful or not, without a lock.
	synced func(*Log)
	mu     struct {
		sync.Mutex
		queue   []*Log
		state   map[*Log]commitState // absent: idle
		workers int
		closed  bool
	}
	done sync.WaitGroup
}

type commitState int

const (
	commitQueued      commitState = iota + 1
	commitRunning                 // a worker syncs the log
	commitRunningMore             // and another sync was requested since
)

func newCommitter(synced func(*Log)) *committer {
	c := &committer{synced: synced}
	c.mu.state = map[*Log]commitState{}
	return c
}

// request queues the log for a sync. It never waits for the disk.
func (c *committer) request(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.closed:
		return // closing the store syncs every log
	case c.mu.state[l] == commitRunning:
		c.mu.state[l] = commitRunningMore
		return
	case c.mu.state[l] != 0:
		return
	}
	c.mu.state[l] = commitQueued
	c.mu.queue = append(c.mu.queue, l)
	if c.mu.workers < commitWorkersMax {
		c.mu.workers++
		// called under the lock that close acquires, so close waits for this goroutine
		c.done.Go(c.work)
	}
}

// work syncs logs until none is queued.
func (c *committer) work() {
	for {
		l := c.next()
		if l == nil {
			return
		}
		// An error has stopped the log, or the log is closed; callers that wait check the log
		// itself.
		_ = l.commit()
		c.finish(l)
		c.synced(l)
	}
}

// next removes a log from the queue and returns it; nil if the queue is empty, and the worker ends.
func (c *committer) next() *Log {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.queue) == 0 || c.mu.closed {
		c.mu.workers--
		return nil
	}
	l := c.mu.queue[0]
	c.mu.queue = c.mu.queue[1:]
	c.mu.state[l] = commitRunning
	return l
}

// finish queues the log again if another sync was requested meanwhile.
func (c *committer) finish(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.state[l] == commitRunningMore && !c.mu.closed {
		c.mu.state[l] = commitQueued
		c.mu.queue = append(c.mu.queue, l)
		return
	}
	delete(c.mu.state, l)
}

// close ends the goroutines and joins them; closing a log syncs what is still queued.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.done.Wait()
}

// durableEndCallback is the argument of Store.OnDurableEnd.
type durableEndCallback = atomic.Pointer[func(PartitionID)]

// OnDurableEnd registers f, which a goroutine of the store calls without a lock whenever a sync may
// have moved a log's DurableEnd, and when a log has stopped. Requests that wait for the durable end
// then check the log again. A second call replaces the callback.
func (s *Store) OnDurableEnd(f func(PartitionID)) { s.durableEnd.Store(&f) }

// durableEndChanged calls the callback for a log.
func (s *Store) durableEndChanged(l *Log) {
	if f := s.durableEnd.Load(); f != nil {
		(*f)(l.id)
	}
}

// syncFailed stops the log, and returns the error that its caller returns. A failed sync is not
// retried: the kernel may have dropped the pages it could not write, and would report success the
// next time (ADR 0011). If the disk had no room to rewrite a tail (segment.Recover), the sync
// itself was not attempted, and it may succeed later.
func (l *Log) syncFailed(h *handle, cause error) error {
	err := fmt.Errorf("sync: %w", cause)
	if h.Broken() != nil {
		l.fail(err)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}
