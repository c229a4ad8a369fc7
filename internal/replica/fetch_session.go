package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
	"heartwood.dev/heartwood/internal/timer"
)

// fetchSession is the leader's side of one fetch session. It contains the client's last request for
// each partition, and the list of dirty partitions, which may have something to report. A fetch
// reads only the dirty partitions.
//
// Invariant: a partition that is not dirty has nothing to report beyond the session's last
// response. So every event that can change a response marks the partition dirty after the change. A
// read removes the partition from the dirty list before it reads the log. Changes of the log start
// and the cleaning progress cause no event; sessions.scan finds them, twice a second.
//
// fetchLock is held by one fetch at a time. It guards all fields for which no other guard is
// stated. mu is a leaf and is held only briefly.
type fetchSession struct {
	id       int32
	follower *metadata.InSync // nil if the session belongs to a consumer
	topicIDs bool             // true if the session's fetches name topics by id

	fetchLock     chan struct{} // token that is present while no fetch is in progress
	sequence      session.Sequence
	partitions    map[session.Key]*sessionPartition
	readCommitted bool      // isolation level of the last fetch
	scanned       time.Time // time of the last scan of all partitions
	lastFetch     lastFetch
	// markAllNext makes the next fetch mark all partitions dirty.
	markAllNext atomic.Bool

	mu struct {
		sync.Mutex
		dirty   session.DirtyList[*sessionPartition]
		waiting *timer.Waiting[PartitionID] // the waiting fetch; nil if no fetch waits
		// interrupted is set if the fetch in progress must not wait, because the next fetch has
		// arrived or the session is closed.
		interrupted bool
	}
	closed chan struct{} // closed when the session is closed
}

// lastFetch is the time of the last fetch in a session. At that time, the follower's log of each
// partition still had the end offset that the follower last reported. lastFetch implements
// isr.Session.
type lastFetch struct{ pointer atomic.Pointer[time.Time] }

// LastFetch implements isr.Session.
func (l *lastFetch) LastFetch() time.Time {
	if moment := l.pointer.Load(); moment != nil {
		return *moment
	}
	return time.Time{}
}

// sessionPartition is a partition of a session. The session's mu guards Mark.
type sessionPartition struct {
	session.Mark
	session *fetchSession
	key     session.Key
	request FetchPartition // last request of the client
	state   position       // state after the last read
	sent    sentOffsets    // offsets that a consumer last received
	counted countedBytes   // bytes that the waiting fetch has counted
	watched bool           // true if sessionWatch contains the partition
}

// sentOffsets contains the offsets that a consumer last received for a partition. They are sent
// again only if one of them has changed.
type sentOffsets struct{ highWater, logStart int64 }

// countedBytes describes the bytes of a partition that a waiting fetch has counted towards its
// BytesMin.
type countedBytes struct {
	by    *delayedSessionFetch
	bytes int
}

func newFetchSession(id int32, follower *metadata.InSync) *fetchSession {
	s := &fetchSession{
		id: id, fetchLock: make(chan struct{}, 1), closed: make(chan struct{}),
		partitions: map[session.Key]*sessionPartition{}, sequence: session.NewSequence(),
	}
	if follower != nil {
		owner := *follower
		s.follower = &owner
	}
	s.fetchLock <- struct{}{}
	return s
}

// belongsTo reports whether the session belongs to the given follower in its broker epoch. If
// follower is nil, it reports whether the session belongs to a consumer.
func (s *fetchSession) belongsTo(follower *metadata.InSync) bool {
	if s.follower == nil || follower == nil {
		return s.follower == nil && follower == nil
	}
	return *s.follower == *follower
}

// mark marks a partition dirty. If wake is set, mark also wakes the session's waiting fetch.
func (s *fetchSession) mark(p *sessionPartition, wake bool) {
	s.mu.Lock()
	s.mu.dirty.Add(p)
	waiting := s.mu.waiting
	s.mu.Unlock()
	if wake && waiting != nil {
		waiting.Check()
	}
}

// markEach marks partitions dirty.
func (s *fetchSession) markEach(partitions ...*sessionPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		s.mu.dirty.Add(p)
	}
}

// markAll marks all partitions dirty. The caller holds fetchLock.
func (s *fetchSession) markAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.partitions {
		s.mu.dirty.Add(p)
	}
}

// takeDirty empties the dirty list and returns its partitions in order.
func (s *fetchSession) takeDirty() []*sessionPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.dirty.Take()
}

// remove removes a partition from the session. The caller holds fetchLock.
func (s *fetchSession) remove(p *sessionPartition) {
	delete(s.partitions, p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.dirty.Remove(p)
}

// interrupt ends the wait of the fetch in progress. If the wait has not begun, interrupt prevents
// it.
func (s *fetchSession) interrupt() {
	s.mu.Lock()
	s.mu.interrupted = true
	waiting := s.mu.waiting
	s.mu.Unlock()
	if waiting != nil {
		waiting.Cancel()
	}
}

// beginWait registers a waiting fetch, so that mark can wake it. Then it evaluates the fetch once,
// because partitions may have been marked before the registration.
func (s *fetchSession) beginWait(w timer.Waiting[PartitionID]) {
	s.mu.Lock()
	s.mu.waiting = &w
	interrupted := s.mu.interrupted
	s.mu.Unlock()
	if interrupted {
		w.Cancel()
	}
	w.Check()
}

func (s *fetchSession) endWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = nil
}

// wake makes the waiting fetch check the dirty partitions.
func (s *fetchSession) wake() {
	s.mu.Lock()
	waiting := s.mu.waiting
	s.mu.Unlock()
	if waiting != nil {
		waiting.Check()
	}
}

func (s *fetchSession) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// begin acquires fetchLock. If another fetch of the session is in progress, begin ends that fetch's
// wait, and waits until the fetch has returned. begin fails if the session is closed, or if the
// fetch is not the session's next one.
func (s *fetchSession) begin(ctx context.Context, id session.ID) error {
	select {
	case <-s.fetchLock:
	default:
		s.interrupt()
		select {
		case <-s.fetchLock:
		case <-s.closed:
			return session.ErrNotFound
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", session.ErrNotFound, ctx.Err())
		}
	}
	err := s.accept(id)
	if err != nil {
		s.fetchLock <- struct{}{}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.interrupted = s.isClosed()
	return nil
}

// accept checks the id of a fetch against the session's epoch. The caller holds fetchLock.
func (s *fetchSession) accept(id session.ID) error {
	if s.isClosed() {
		return session.ErrNotFound
	}
	return s.sequence.Accept(id)
}
