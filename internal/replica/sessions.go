package replica

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// sessionsMax is how many sessions are kept (max.incremental.fetch.session.cache.slots in
	// Kafka, with its default).
	sessionsMax = 1000
	// sessionPartitionsMax is how many partitions they have together: some 40 MB. Kafka has no such
	// bound, and a session's client can name partitions that do not exist.
	sessionPartitionsMax = 100_000
	// sessionKeep is for how long a session is not given up for another one, or without having been
	// used (min.incremental.fetch.session.eviction.ms in Kafka).
	sessionKeep = 2 * time.Minute
)

// sessions are all fetch sessions of a broker.
type sessions struct {
	table sessionTable
	watch sessionWatch
}

// sessionTable keeps sessions within bounds, by the rules of KIP-227. mu is a leaf.
type sessionTable struct {
	mu         sync.Mutex
	byID       map[int32]*session
	partitions int // of all sessions
}

// open makes a session of so many partitions, and gives up another for it if need be: one that was
// not used for sessionKeep; else the least of those that are sessionKeep old, if it is less than
// the new one. A follower's counts for more than any consumer's, and does not wait until a
// consumer's is old. It returns nil if there is no room.
func (t *sessionTable) open(follower *metadata.InSync, size int, now time.Time) (opened *session,
	evicted []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.byID) >= sessionsMax || t.partitions+size > sessionPartitionsMax {
		out := t.leastLocked(follower != nil, size, now)
		if out == nil {
			return nil, evicted
		}
		t.removeLocked(out)
		evicted = append(evicted, out)
	}
	id := int32(0)
	for id == 0 || t.byID[id] != nil {
		id = rand.Int32N(math.MaxInt32)
	}
	if t.byID == nil {
		t.byID = map[int32]*session{}
	}
	opened = newSession(id, follower, now)
	opened.size = size
	t.byID[id] = opened
	t.partitions += size
	return opened, evicted
}

// takeBefore takes out the sessions of a follower's earlier incarnations: nobody continues them.
// nil is a consumer.
func (t *sessionTable) takeBefore(follower *metadata.InSync) (over []*session) {
	if follower == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		if s.follower != nil && s.follower.Broker == follower.Broker &&
			s.follower.Epoch < follower.Epoch {
			t.removeLocked(s)
			over = append(over, s)
		}
	}
	return over
}

// leastLocked is the session that is to go for another one; nil: none is.
func (t *sessionTable) leastLocked(privileged bool, size int, now time.Time) *session {
	var stale, least *session
	for _, s := range t.byID {
		if now.Sub(s.used) > sessionKeep && (stale == nil || s.used.Before(stale.used)) {
			stale = s
		}
		old := now.Sub(s.created) > sessionKeep || privileged && s.follower == nil
		if old && s.worth(privileged, size) < 0 &&
			(least == nil || s.worth(least.follower != nil, least.size) < 0) {
			least = s
		}
	}
	if stale != nil {
		return stale
	}
	return least
}

// worth compares a session with what another one has: below 0, it is worth less.
func (s *session) worth(privileged bool, size int) int {
	switch {
	case (s.follower != nil) == privileged:
		return s.size - size
	case privileged:
		return -1
	}
	return 1
}

// find returns a session; nil: there is none of the id.
func (t *sessionTable) find(id int32) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// used notes that a session was used, and how many partitions it has by now; false: there is no
// room for them.
func (t *sessionTable) used(s *session, size int, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[s.id] != s {
		return true // it is over already
	}
	t.partitions += size - s.size
	s.size, s.used = size, now
	return t.partitions <= sessionPartitionsMax || size == 0
}

// remove takes a session out; false: it was not in.
func (t *sessionTable) remove(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.removeLocked(s)
}

func (t *sessionTable) removeLocked(s *session) bool {
	if t.byID[s.id] != s {
		return false
	}
	delete(t.byID, s.id)
	t.partitions -= s.size
	return true
}

// each calls do for every session, without the lock.
func (t *sessionTable) each(do func(*session)) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.byID))
	t.mu.Unlock()
	for _, s := range all {
		do(s)
	}
}

// sessionWatch says in which sessions a partition is.
type sessionWatch struct {
	mu      sync.RWMutex
	entries map[PartitionID][]*sessionEntry // never an empty list
}

func (w *sessionWatch) add(e *sessionEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.entries == nil {
		w.entries = map[PartitionID][]*sessionEntry{}
	}
	e.watched = true
	w.entries[e.want.ID] = append(w.entries[e.want.ID], e)
}

func (w *sessionWatch) remove(e *sessionEntry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.watched {
		return
	}
	e.watched = false
	list := w.entries[e.want.ID]
	for i, other := range list {
		if other == e {
			list[i] = list[len(list)-1]
			list[len(list)-1] = nil
			list = list[:len(list)-1]
			break
		}
	}
	if w.entries[e.want.ID] = list; len(list) == 0 {
		delete(w.entries, e.want.ID)
	}
}

// mark queues a partition in its sessions of followers, or else of consumers. It copies: a fetch
// that is woken may end, and go on to change the list.
func (w *sessionWatch) mark(id PartitionID, followers, wake bool) {
	var few [8]*sessionEntry
	w.mu.RLock()
	list := append(few[:0], w.entries[id]...)
	w.mu.RUnlock()
	for _, e := range list {
		if followers == (e.session.follower != nil) {
			e.session.mark(e, wake)
		}
	}
}

// each calls do for every partition of every session, with the lock: do takes none but the
// session's mu.
func (w *sessionWatch) each(do func(*sessionEntry)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, list := range w.entries {
		for _, e := range list {
			do(e)
		}
	}
}
