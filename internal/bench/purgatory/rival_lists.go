package purgatory

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// shards of the lists: as many as the purgatory has.
const shards = 64

// purgeInterval is how many requests that have ended may be left in lists, by the estimate, before
// a purge: Kafka's standard (purgatory.purge.interval.requests).
const purgeInterval = 1000

// unlinkingLists are the purgatory's way: a request that ends leaves all its lists at once.
type unlinkingLists struct {
	seed   maphash.Seed
	shards [shards]struct {
		mu    sync.Mutex
		first map[key]*place
		_     [40]byte // a cache line each
	}
}

// place is a request's in one list.
type place struct {
	key        key
	shard      uint64
	prev, next *place
}

func newUnlinkingLists() *unlinkingLists {
	l := &unlinkingLists{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].first = map[key]*place{}
	}
	return l
}

func (l *unlinkingLists) add(w *waiter, keys []key) {
	w.places = make([]place, len(keys))
	for i, k := range keys {
		p := &w.places[i]
		p.key, p.shard = k, maphash.Comparable(l.seed, k)%shards
		s := &l.shards[p.shard]
		s.mu.Lock()
		if p.next = s.first[k]; p.next != nil {
			p.next.prev = p
		}
		s.first[k] = p
		s.mu.Unlock()
	}
}

func (l *unlinkingLists) ended(w *waiter) {
	for i := range w.places {
		p := &w.places[i]
		s := &l.shards[p.shard]
		s.mu.Lock()
		if p.next != nil {
			p.next.prev = p.prev
		}
		switch {
		case p.prev != nil:
			p.prev.next = p.next
		case p.next != nil:
			s.first[p.key] = p.next
		default:
			delete(s.first, p.key)
		}
		s.mu.Unlock()
	}
}

// purgedLists are Kafka's way: a request that has ended stays in its lists until a purge walks all
// of them. A purge is due when the estimated number of requests, less those that still wait, passes
// purgeInterval: the estimate counts each request that is watched, and a purge sets it to the
// number of those that wait.
type purgedLists struct {
	seed      maphash.Seed
	estimated atomic.Int64 // requests in the lists, at least
	waiting   atomic.Int64 // requests that have not ended
	purging   atomic.Bool  // one purge at a time
	shards    [shards]struct {
		mu   sync.Mutex
		with map[key]*[]*waiter
		_    [40]byte // a cache line each
	}
}

func newPurgedLists() *purgedLists {
	l := &purgedLists{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].with = map[key]*[]*waiter{}
	}
	return l
}

func (l *purgedLists) add(w *waiter, keys []key) {
	l.estimated.Add(1)
	l.waiting.Add(1)
	for _, k := range keys {
		s := &l.shards[maphash.Comparable(l.seed, k)%shards]
		s.mu.Lock()
		watching := s.with[k]
		if watching == nil {
			watching = new([]*waiter)
			s.with[k] = watching
		}
		*watching = append(*watching, w)
		s.mu.Unlock()
	}
}

func (l *purgedLists) ended(*waiter) {
	if l.estimated.Load()-l.waiting.Add(-1) > purgeInterval {
		l.purge()
	}
}

// purge takes those that have ended out of all lists, in the goroutine of the one that ended last.
// Kafka has a thread for it; the work is the same.
func (l *purgedLists) purge() {
	if !l.purging.CompareAndSwap(false, true) {
		return
	}
	defer l.purging.Store(false)
	l.estimated.Store(l.waiting.Load())
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for k, watching := range s.with {
			left := (*watching)[:0]
			for _, w := range *watching {
				if !w.done.Load() {
					left = append(left, w)
				}
			}
			clear((*watching)[len(left):])
			if *watching = left; len(left) == 0 {
				delete(s.with, k)
			}
		}
		s.mu.Unlock()
	}
}
