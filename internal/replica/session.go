package replica

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/timer"
)

// SessionID names a fetch session, and which of its fetches this is (KIP-227). ID 0 is no session.
// Epoch 0 asks for a new one and -1 for none; both name all partitions, and end the session of the
// id. Any other epoch names what is new since the fetch before.
type SessionID struct{ ID, Epoch int32 }

// Epochs of SessionID that have a meaning of their own.
const (
	SessionNew  int32 = 0
	SessionNone int32 = -1
)

// Next is the epoch of the fetch that follows: after the largest comes 1.
func (s SessionID) Next() SessionID {
	return SessionID{s.ID, max(s.Epoch+1, 1)}
}

// PartitionKey names a partition in a session: by its topic's id, and by the name only where the
// asker has no id.
type PartitionKey struct {
	Topic metadata.ID
	Name  string // "" unless Topic is zero
	Index int32
}

// KeyOf returns the key of a partition as it is named in a fetch.
func KeyOf(topic metadata.ID, id PartitionID) PartitionKey {
	if topic != (metadata.ID{}) {
		return PartitionKey{Topic: topic, Index: id.Index}
	}
	return PartitionKey{Name: id.Topic, Index: id.Index}
}

// session is what one asker said last of each of its partitions, and which of these may have news
// for it: those are looked at when it asks, and no others.
//
// Invariant: a partition that is not queued has nothing to say to what the asker said last of it.
// So whatever could change that queues it, after the change: mark. A look takes it off the list
// before it looks. What the log tells by itself without an event (where it begins, how far it was
// cleaned) is looked after once a second, by glance.
//
// turn is held by one fetch at a time; it guards what has no other guard. mu is a leaf, held for
// moments.
type session struct {
	id       int32
	follower *metadata.InSync // nil: a consumer's
	topicIDs bool             // topics are named by their ids
	created  time.Time
	used     time.Time // the table's
	size     int       // the table's: partitions, as of the last fetch

	turn      chan struct{} // holds one while no fetch is under way
	epoch     int32         // of the next fetch
	entries   map[PartitionKey]*sessionEntry
	committed bool      // how the last fetch wanted to read
	glanced   time.Time // when all partitions were looked after last
	asks      lastAsk
	// again has the next fetch look at all partitions, as something has changed for all of them.
	again atomic.Bool

	mu struct {
		sync.Mutex
		ready   []*sessionEntry
		waiting *timer.Waiting[PartitionID] // of the fetch that waits; nil: none does
		// the next fetch is here, or the session is over: the one that waits is not to
		hurried bool
	}
	over chan struct{} // closed once the session is
}

// lastAsk is when a follower last asked in its session for anything: of all partitions of which it
// has everything, that is when it was caught up.
type lastAsk struct{ at atomic.Pointer[time.Time] }

func (l *lastAsk) last() time.Time {
	if at := l.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// sessionEntry is a partition of a session.
type sessionEntry struct {
	session *session
	key     PartitionKey
	want    FetchPartition // what the asker said last
	at      position       // after the last look
	told    told           // to a consumer
	counted counted        // of the fetch that waits
	watched bool           // events of want.ID find it
	queued  bool           // it is in ready; the session's mu guards it
	dropped bool           // it is of the session no more; the session's mu guards it
}

// told is what a consumer was told of a partition beside its records; what has not changed is not
// told again.
type told struct{ highWater, logStart int64 }

// counted is what a partition has for a fetch that waits for a number of bytes.
type counted struct {
	by    *delayedSession
	bytes int
}

func newSession(id int32, follower *metadata.InSync, now time.Time) *session {
	s := &session{
		id: id, created: now, used: now, turn: make(chan struct{}, 1), over: make(chan struct{}),
		entries: map[PartitionKey]*sessionEntry{}, epoch: 1,
	}
	if follower != nil {
		of := *follower
		s.follower = &of
	}
	s.turn <- struct{}{}
	return s
}

// mark queues a partition: there may be news. With wake the fetch that waits looks at once.
func (s *session) mark(e *sessionEntry, wake bool) {
	s.mu.Lock()
	s.queueLocked(e)
	waiting := s.mu.waiting
	s.mu.Unlock()
	if wake && waiting != nil {
		waiting.Check()
	}
}

func (s *session) queueLocked(e *sessionEntry) {
	if !e.queued && !e.dropped {
		e.queued = true
		s.mu.ready = append(s.mu.ready, e)
	}
}

// queue is mark for several, without waking anybody.
func (s *session) queue(entries ...*sessionEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.queueLocked(e)
	}
}

// queueAll has every partition looked at.
func (s *session) queueAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		s.queueLocked(e)
	}
}

// take returns what is queued, in the order in which it was. An event from now on queues again.
func (s *session) take() []*sessionEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.mu.ready
	s.mu.ready = nil
	kept := taken[:0]
	for _, e := range taken {
		e.queued = false
		if !e.dropped {
			kept = append(kept, e)
		}
	}
	return kept
}

// drop takes a partition out of the session.
func (s *session) drop(e *sessionEntry) {
	delete(s.entries, e.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.dropped = true
}

// hurry ends the wait of the fetch under way, or keeps it from waiting.
func (s *session) hurry() {
	s.mu.Lock()
	s.mu.hurried = true
	waiting := s.mu.waiting
	s.mu.Unlock()
	if waiting != nil {
		waiting.Cancel()
	}
}

// waits makes events find the fetch that waits. What came before is looked at now.
func (s *session) waits(w timer.Waiting[PartitionID]) {
	s.mu.Lock()
	s.mu.waiting = &w
	hurried := s.mu.hurried
	s.mu.Unlock()
	if hurried {
		w.Cancel()
	}
	w.Check()
}

// waited is the end of the wait.
func (s *session) waited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = nil
}

// isOver tells whether the session is.
func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// begin waits until no other fetch of the session is under way: one that waits is to end. It fails
// for a session that is over, and for a fetch that is not the next.
func (s *session) begin(ctx context.Context, id SessionID) error {
	select {
	case <-s.turn:
	default:
		s.hurry()
		select {
		case <-s.turn:
		case <-s.over:
			return ErrSessionNotFound
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrSessionNotFound, ctx.Err())
		}
	}
	if s.isOver() {
		s.turn <- struct{}{}
		return ErrSessionNotFound
	}
	if id.Epoch != s.epoch && id.Epoch != SessionNew {
		s.turn <- struct{}{}
		return fmt.Errorf("%w: %d, the next is %d", ErrSessionEpoch, id.Epoch, s.epoch)
	}
	if id.Epoch != SessionNew {
		s.epoch = id.Next().Epoch
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.hurried = s.isOver()
	return nil
}

// wake lets the fetch that waits look at what is queued.
func (s *session) wake() {
	s.mu.Lock()
	waiting := s.mu.waiting
	s.mu.Unlock()
	if waiting != nil {
		waiting.Check()
	}
}
