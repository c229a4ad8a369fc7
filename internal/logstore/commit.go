package logstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// commitWorkersMax bounds how many logs of a store are synced concurrently for producers that
	// wait. Filesystems combine concurrent syncs into one write of their journal, so a few are
	// cheaper than one after the other; each occupies a thread while it lasts.
	commitWorkersMax = 16
	// flushBytesDefault, besides flushIntervalDefault, bounds what a power failure takes from one
	// log on a disk that keeps up.
	flushBytesDefault = 64 << 20
)

// DurableEnd returns the durable end offset, by the topic's durability: the log end, or under Fsync
// the end of what is on disk. A high watermark that is computed from the durable ends of the
// in-sync replicas shows consumers nothing that can be lost (ADR 0050). It falls when a topic
// changes to Fsync; the high watermark does not.
func (l *Log) DurableEnd() int64 {
	if !l.Settings().Fsync {
		return l.logEnd.Load()
	}
	// synced is lowered before the log end, and raised after it, so it never exceeds an end that
	// the log had.
	return min(l.disk.synced.Load(), l.logEnd.Load())
}

// appended requests the sync that an append needs: under Fsync at once, otherwise once many bytes
// are unsynced. It is called after each append, without Log.mu. A duplicate counts too: the batch
// that it repeats may still wait for its sync, or may have been appended before the topic changed
// to Fsync.
func (l *Log) appended(config *config) {
	switch {
	case config.settings.Fsync:
		if l.disk.synced.Load() < l.logEnd.Load() {
			l.env.commit(l)
		}
	case l.unsynced.Load() > l.env.flushBytes:
		l.unsynced.Store(0) // the next request is due after as many bytes again
		l.env.commit(l)
	}
}

// commit makes durable what was appended before it began: one sync for all appends since the last
// one. Unlike flush it seals nothing and does not acquire Log.maintain, so a producer waits for a
// sync of its log only, and never for a swap of the cleaner. Appends continue concurrently.
// Segment.Sync runs one sync of a segment at a time, so that no caller mistakes the second one
// after a failure for a success.
func (l *Log) commit() error {
	l.mu.Lock()
	end, lineage, stopped := l.logEnd.Load(), l.lineage.Load(), l.mu.stopped
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
	if l.lineage.Load() != lineage {
		return nil // truncated meanwhile: other records may be below end, which asked for a sync
	}
	l.disk.syncedTo(end)
	return nil
}

// syncMeter counts the syncs of a log and the time they took. Both only rise.
type syncMeter struct {
	count atomic.Int64
	spent atomic.Int64 // ns of wall clock
}

func (m *syncMeter) add(took time.Duration) {
	m.spent.Add(int64(took))
	m.count.Add(1)
}

// committer syncs the logs whose producers wait for it, one sync per log at a time: the next one
// covers everything that is appended during the current one. Its goroutines start when there is
// work and end when there is none.
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

// request has the log synced soon. It never waits for the disk.
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
		c.done.Go(c.work) // under the lock that close acquires
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

// next takes a log off the queue; nil ends the worker.
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
// have moved a log's DurableEnd, and when a log has stopped: requests that wait for either check it
// again. It replaces the previous f.
func (s *Store) OnDurableEnd(f func(PartitionID)) { s.durableEnd.Store(&f) }

// durableEndChanged calls the callback for a log.
func (s *Store) durableEndChanged(l *Log) {
	if f := s.durableEnd.Load(); f != nil {
		(*f)(l.id)
	}
}

// syncFailed stops the log, and returns the error of its caller. A failed sync is not retried: the
// kernel may have dropped the pages it could not write, and would report success the next time (ADR
// 0011).
//
// A sync that was not reached, because there was no room to write a tail again (segment.Recover),
// may succeed later.
func (l *Log) syncFailed(h *handle, cause error) error {
	err := fmt.Errorf("sync: %w", cause)
	if h.Broken() != nil {
		l.fail(err)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}
