package timer

import (
	"hash/maphash"
	"sync"
)

// shards of the watch lists: enough that the connections of a few cores rarely meet.
const shards = 64

// watchLists says which operations watch which key.
type watchLists[K comparable] struct {
	seed   maphash.Seed
	shards [shards]shard[K]
}

type shard[K comparable] struct {
	mu struct {
		sync.Mutex
		lists map[K]*watch[K] // never holds nil: a key without watchers is not in the map
		count int
	}
	_ [40]byte // 24 + 40 bytes, a cache line each, or two cores that lock neighbours would take the line from each other
}

// watch is an operation's place in one key's list. Its fields belong to the lock of the key's shard.
type watch[K comparable] struct {
	key        K
	of         *item[K]
	prev, next *watch[K]
	linked     bool
}

func newWatchLists[K comparable]() *watchLists[K] {
	l := &watchLists[K]{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].mu.lists = map[K]*watch[K]{}
	}
	return l
}

// shard returns the shard a key belongs to. The seed is random: nobody can choose keys that all meet in one.
func (l *watchLists[K]) shard(key K) *shard[K] {
	return &l.shards[maphash.Comparable(l.seed, key)%shards]
}

// add puts w at the head of its key's list, in O(1): the order within a list has no meaning. w must not be linked.
func (l *watchLists[K]) add(w *watch[K]) {
	s := l.shard(w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.next = s.mu.lists[w.key]; w.next != nil {
		w.next.prev = w
	}
	s.mu.lists[w.key] = w
	w.linked = true
	s.mu.count++
}

// remove takes w out of its list in O(1), and tells whether it was there.
func (l *watchLists[K]) remove(w *watch[K]) bool {
	s := l.shard(w.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.linked {
		return false
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case w.next != nil:
		s.mu.lists[w.key] = w.next
	default:
		delete(s.mu.lists, w.key)
	}
	w.prev, w.next, w.linked = nil, nil, false
	s.mu.count--
	return true
}

// appendWatchers appends those who watch key. It copies, so that they are looked at without the lock: a look may take long, and
// the one that completes goes back to this list to leave it.
func (l *watchLists[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := s.mu.lists[key]; w != nil; w = w.next {
		dst = append(dst, w.of)
	}
	return dst
}

// count returns the number of places in all lists.
func (l *watchLists[K]) count() int {
	total := 0
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		total += s.mu.count
		s.mu.Unlock()
	}
	return total
}
