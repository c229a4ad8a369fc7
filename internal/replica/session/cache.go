package session

import (
	"math"
	"math/rand/v2"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// SessionsMax is the maximum number of sessions in a Cache, like Kafka's
	// max.incremental.fetch.session.cache.slots, and with the same default.
	SessionsMax = 1000
	// PartitionsMax is the maximum number of partitions in all sessions together, which need about 40
	// MB. Kafka has no such limit, although a client can name partitions that do not exist.
	PartitionsMax = 100_000
	// evictionAge is how old, or how long unused, a session must be before another session may replace
	// it. The corresponding setting of Kafka is min.incremental.fetch.session.eviction.ms.
	evictionAge = 2 * time.Minute
)

// Cache contains a broker's fetch sessions, within the limits SessionsMax and PartitionsMax, and
// evicts sessions by the rules of KIP-227. S is the type of the leader's side of a session. The
// zero value is empty.
type Cache[S comparable] struct {
	slots      map[int32]*slot[S]
	partitions int
}

// slot is a session in the cache.
type slot[S comparable] struct {
	id       int32
	session  S
	follower *metadata.InSync // nil if the session belongs to a consumer
	created  time.Time
	used     time.Time
	size     int // number of partitions at the last fetch
}

// Add adds a session of size partitions, which open creates for a new random id. follower is nil
// for a consumer's session. ok is false if there is no room.
//
// If the cache is full, Add evicts a session that has been unused for evictionAge. If there is
// none, it evicts the lowest-ranking session that is older than evictionAge, provided that the new
// session has a higher rank. Smaller sessions have a lower rank, and every consumer's session has a
// lower rank than every follower's session. A follower's new session can evict a consumer's session
// of any age.
func (c *Cache[S]) Add(follower *metadata.InSync, size int, now time.Time,
	open func(id int32) S) (opened S, evicted []S, ok bool) {
	for len(c.slots) >= SessionsMax || c.partitions+size > PartitionsMax {
		out := c.evictable(follower != nil, size, now)
		if out == nil {
			return opened, evicted, false
		}
		c.remove(out)
		evicted = append(evicted, out.session)
	}
	id := int32(0)
	for id == 0 || c.slots[id] != nil {
		id = rand.Int32N(math.MaxInt32)
	}
	if c.slots == nil {
		c.slots = map[int32]*slot[S]{}
	}
	added := &slot[S]{id: id, session: open(id), created: now, used: now, size: size}
	if follower != nil {
		owner := *follower
		added.follower = &owner
	}
	c.slots[id] = added
	c.partitions += size
	return added.session, evicted, true
}

// evictable returns the session to evict in favour of a new one, or nil.
func (c *Cache[S]) evictable(follower bool, size int, now time.Time) *slot[S] {
	var unused, smallest *slot[S]
	for _, s := range c.slots {
		if now.Sub(s.used) > evictionAge && (unused == nil || s.used.Before(unused.used)) {
			unused = s
		}
		old := now.Sub(s.created) > evictionAge || follower && s.follower == nil
		if old && s.compare(follower, size) < 0 &&
			(smallest == nil || s.compare(smallest.follower != nil, smallest.size) < 0) {
			smallest = s
		}
	}
	if unused != nil {
		return unused
	}
	return smallest
}

// compare compares the rank of s with the rank of a session with the given properties. A negative
// result means that s has the lower rank and is evicted first.
func (s *slot[S]) compare(follower bool, size int) int {
	switch {
	case (s.follower != nil) == follower:
		return s.size - size
	case follower:
		return -1
	}
	return 1
}

// RemoveEarlier removes the sessions of a follower's earlier broker epochs, whose processes have
// exited. For a consumer (nil) it does nothing.
func (c *Cache[S]) RemoveEarlier(follower *metadata.InSync) (removed []S) {
	if follower == nil {
		return nil
	}
	for _, s := range c.slots {
		if s.follower != nil && s.follower.Broker == follower.Broker &&
			s.follower.Epoch < follower.Epoch {
			c.remove(s)
			removed = append(removed, s.session)
		}
	}
	return removed
}

// Get returns the session with the given id, or the zero S.
func (c *Cache[S]) Get(id int32) (session S) {
	if s := c.slots[id]; s != nil {
		return s.session
	}
	return session
}

// Use updates the time at which a session was last used, and its number of partitions. It reports
// whether the cache has room for these partitions. It ignores a session that is no longer in the
// cache.
func (c *Cache[S]) Use(id int32, session S, size int, now time.Time) bool {
	s := c.slots[id]
	if s == nil || s.session != session {
		return true
	}
	c.partitions += size - s.size
	s.size, s.used = size, now
	return c.partitions <= PartitionsMax || size == 0
}

// Remove removes a session and reports whether it was in the cache.
func (c *Cache[S]) Remove(id int32, session S) bool {
	s := c.slots[id]
	if s == nil || s.session != session {
		return false
	}
	c.remove(s)
	return true
}

func (c *Cache[S]) remove(s *slot[S]) {
	delete(c.slots, s.id)
	c.partitions -= s.size
}

// All returns all sessions, in any order.
func (c *Cache[S]) All() []S {
	all := make([]S, 0, len(c.slots))
	for _, s := range c.slots {
		all = append(all, s.session)
	}
	return all
}

// Len returns the number of sessions.
func (c *Cache[S]) Len() int { return len(c.slots) }

// Partitions returns the number of partitions in all sessions.
func (c *Cache[S]) Partitions() int { return c.partitions }
