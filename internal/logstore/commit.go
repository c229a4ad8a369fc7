package logstore

import (
	"sync"
	"sync/atomic"
)

const (
	// commitWorkersMax is the maximum number of a store's logs that are synced concurrently for
	// waiting producers. Filesystems combine concurrent syncs into one write of their journal, so a
	// few concurrent syncs are cheaper than sequential ones. The number is limited because each
	// sync occupies a thread while it runs.
	commitWorkersMax = 16
	// flushBytesDefault is the number of bytes that may be appended to a log before a sync is
	// requested. Like flushIntervalDefault, it limits the data that a power failure can remove from
	// one log, as long as the disk keeps up with the appends.
	flushBytesDefault = 64 << 20
)

// DurableEnd returns the durable end offset: the log end, or under durability Fsync the end of the
// synced records. The leader computes the high watermark from the durable ends of the in-sync
// replicas. Under Fsync, consumers therefore read only records that all in-sync replicas have
// synced (ADR 0050). When a topic changes to Fsync, the durable end may fall; the high watermark
// does not.
func (l *Log) DurableEnd() int64 {
	if !l.Settings().Fsync {
		return l.offsets.LogEnd()
	}
	// A truncation lowers the synced offset before it lowers the log end, and a sync raises the
	// synced offset after the log end has risen. So the result never exceeds the log end, even if
	// one of the two values changes between the loads.
	return min(l.disk.Synced(), l.offsets.LogEnd())
}

// appended requests the sync that an append needs: under durability Fsync at once, otherwise when
// many bytes are unsynced. It is called after each append, without Log.mu. A duplicate also
// requests a sync, because the original batch may not be synced yet, or may have been appended
// before the topic changed to Fsync.
func (l *Log) appended(config *config) {
	switch {
	case config.settings.Fsync:
		if l.disk.Synced() < l.offsets.LogEnd() {
			l.env.commit(l)
		}
	case l.disk.NeedsSync(l.env.flushBytes):
		l.env.commit(l)
	}
}

// committer syncs the logs whose producers wait for a sync. It runs one sync per log at a time; the
// log's next sync then covers everything that was appended during the current sync. Its goroutines
// start when a log is queued and end when the queue is empty.
type committer struct {
	// synced is called without a lock after each sync of a log, even if the sync failed.
	synced func(*Log)
	mu     struct {
		sync.Mutex
		queue   []*Log
		state   map[*Log]commitState // state of each log for which a sync is requested or running
		workers int
		closed  bool
	}
	done sync.WaitGroup
}

type commitState int

const (
	commitQueued  commitState = iota + 1
	commitRunning             // a worker syncs the log
	// a worker syncs the log, and another sync was requested since that sync began
	commitRunningMore
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
		return // nothing to do: closing the store syncs every log
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
		// Go is called under the lock that close acquires, so close waits for this goroutine too.
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
		// The error is not needed here. After a failed sync, either the log has stopped or the next
		// flush retries. Requests that wait for the sync check the state of the log.
		_ = l.disk.Commit()
		c.finish(l)
		c.synced(l)
	}
}

// next removes a log from the queue and returns it. If the queue is empty or the committer is
// closed, it returns nil, and the calling worker ends.
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

// finish ends the sync of a log. It queues the log again if another sync was requested during the
// sync.
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

// close stops the goroutines and waits for their end. It does not sync logs that are still queued,
// because closing a log syncs it.
func (c *committer) close() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.done.Wait()
}

// durableEndCallback holds the callback that Store.OnDurableEnd registered; nil before the first
// call.
type durableEndCallback = atomic.Pointer[func(PartitionID)]

// OnDurableEnd registers the callback f. A goroutine of the store calls f, without a lock, after
// each sync that may have raised a log's DurableEnd, and after a log has stopped. Requests that
// wait for the durable end then check the log again. A second call of OnDurableEnd replaces the
// callback.
func (s *Store) OnDurableEnd(f func(PartitionID)) { s.durableEnd.Store(&f) }

// durableEndChanged calls the OnDurableEnd callback for a log.
func (s *Store) durableEndChanged(l *Log) {
	if f := s.durableEnd.Load(); f != nil {
		(*f)(l.id)
	}
}
