package logstore

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// commitWorkersMax bounds how many logs of a store are synced at once for producers that wait.
	// Filesystems put syncs that come together into one write of their journal, so a few are
	// cheaper than one behind the other; each holds a thread while it lasts.
	commitWorkersMax = 16
	// flushBytesDefault bounds, on a disk that keeps up, what a power cut takes from one log,
	// besides flushIntervalDefault.
	flushBytesDefault = 64 << 20
)

// DurableEnd is the end of what this replica may vouch for, by the topic's durability: the log end, or
// under Fsync the end of what is on its disk. A high watermark made of the DurableEnds of the in-sync
// replicas shows consumers nothing that can be lost (ADR 0050). It falls when a topic changes to
// Fsync; a high watermark does not.
func (l *Log) DurableEnd() int64 {
	if !l.Settings().Fsync {
		return l.logEnd.Load()
	}
	// synced is lowered before the log end is, and raised after it: it is never seen above an end
	// that was there.
	return min(l.disk.synced.Load(), l.logEnd.Load())
}

// appended asks for the sync that what was appended wants: under Fsync at once, else once many
// bytes wait for one. It is called behind each append, without Log.mu. A duplicate counts too: what
// it repeats may wait for its sync still, or may have been appended when the topic was not under
// Fsync yet.
func (l *Log) appended(config *config) {
	switch {
	case config.settings.Fsync:
		if l.disk.synced.Load() < l.logEnd.Load() {
			l.env.commit(l)
		}
	case l.unsynced.Load() > l.env.flushBytes:
		l.unsynced.Store(0) // the next request is due when as much has come again
		l.env.commit(l)
	}
}

// commit makes durable what was appended before it began: one sync for all appends that came in
// meanwhile. Unlike flush it seals nothing and takes no Log.maintain, so that a producer waits for
// a sync of its log only, and never for the cleaner's swap. Appends go on beside it. Segment.Sync
// lets one sync of a segment run at a time, so that of a failed one nobody takes the good half.
func (l *Log) commit() error {
	l.mu.Lock()
	end, lineage, stopped := l.logEnd.Load(), l.lineage.Load(), l.mu.stopped
	list := l.acquire() // rolls hold Log.mu: its last segment is the one that end lies in
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

// syncMeter counts how often a log was synced, and how long that took. Both only rise.
type syncMeter struct {
	count atomic.Int64
	spent atomic.Int64 // ns of wall clock
}

func (m *syncMeter) add(took time.Duration) {
	m.spent.Add(int64(took))
	m.count.Add(1)
}

// committer syncs the logs whose producers wait for it, each log one sync at a time: what is
// appended during one is covered by the next, however many appends it is. Its goroutines are
// started when there is work and end when there is none.
type committer struct {
	// settled is told of each log that was synced, or could not be, without a lock.
	settled func(*Log)
	mu      struct {
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
	commitRunningMore             // and somebody has asked since
)

func newCommitter(settled func(*Log)) *committer {
	c := &committer{settled: settled}
	c.mu.state = map[*Log]commitState{}
	return c
}

// request has the log synced soon. It never waits for the disk.
func (c *committer) request(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.closed:
		return // close of the store syncs every log
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
		c.done.Go(c.work) // under the lock that close takes
	}
}

// work syncs logs until none is queued.
func (c *committer) work() {
	for {
		l := c.next()
		if l == nil {
			return
		}
		// The error has stopped the log, or the log is closed; either way those who wait look at
		// the log itself.
		_ = l.commit()
		c.finish(l)
		c.settled(l)
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

// finish queues the log again if somebody asked during its sync.
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

// close ends the goroutines and joins them; what is queued is left to the close of its log.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.done.Wait()
}

// settlement is what Store.OnDurableEnd was given.
type settlement = atomic.Pointer[func(PartitionID)]

// OnDurableEnd has f called, from a goroutine of the store and without a lock, whenever a log's
// DurableEnd may have moved by a sync, and when a log has stopped: whoever waits for either looks
// again. It replaces the f before.
func (s *Store) OnDurableEnd(f func(PartitionID)) { s.settlement.Store(&f) }

// settled tells whoever waits for the log.
func (s *Store) settled(l *Log) {
	if f := s.settlement.Load(); f != nil {
		(*f)(l.id)
	}
}

// syncFailed stops the log, and returns what its caller fails with. A failed sync is not tried
// again: the kernel may have dropped what it could not write, and would say yes the next time (ADR
// 0011).
//
// One that did not come to the sync, for want of room to write a tail again (segment.Recover), may
// succeed later.
func (l *Log) syncFailed(h *handle, cause error) error {
	err := fmt.Errorf("sync: %w", cause)
	if h.Broken() != nil {
		l.fail(err)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}
