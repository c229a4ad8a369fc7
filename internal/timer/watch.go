package timer

import (
	"hash/maphash"
	"sync"
)

const (
	// shards of the watch lists: enough that the connections of a few cores rarely meet.
	shards = 64
	// spareMax bounds the lists a shard keeps for keys to come.
	spareMax = 16
)

// watchLists says which operations watch which key.
type watchLists[K comparable] struct {
	seed   maphash.Seed
	shards [shards]shard[K]
}

type shard[K comparable] struct {
	mu struct {
		sync.Mutex
		lists  map[K]*list[K] // never an empty list: a key without watchers is not in the map
		count  int            // places in all lists
		spare  *list[K]       // chain of lists without a key
		spares int            // its length
	}
	_ [24]byte // 40 + 24 bytes, a cache line each, or two cores that lock neighbours would take the line from each other
}

// list is what watches one key. A key that nobody watched a moment ago is the rule, so emptied lists are used again.
type list[K comparable] struct {
	key   K
	first *watch[K]
	spare *list[K] // the next of the chain
}

// watch is an operation's place in one key's list.
type watch[K comparable] struct {
	of    *item[K]
	shard *shard[K] // its key's; never changes, and its lock guards the fields below
	list  *list[K]  // nil: in none

	prev, next *watch[K]
}

func newWatchLists[K comparable]() *watchLists[K] {
	l := &watchLists[K]{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].mu.lists = map[K]*list[K]{}
	}
	return l
}

// shard returns the shard a key belongs to. The seed is random: nobody can choose keys that all meet in one.
func (l *watchLists[K]) shard(key K) *shard[K] {
	return &l.shards[maphash.Comparable(l.seed, key)%shards]
}

// add puts w at the head of its key's list, in O(1): the order within a list has no meaning. w is in none, and of w.shard.
func (w *watch[K]) add(key K) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.lists[key]
	if l == nil {
		l = s.newListLocked(key)
	}
	if w.next = l.first; w.next != nil {
		w.next.prev = w
	}
	l.first = w
	w.list = l
	s.mu.count++
}

// remove takes w out of its list in O(1), and tells whether it was in one.
func (w *watch[K]) remove() bool {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	l := w.list
	if l == nil {
		return false
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else if l.first = w.next; l.first == nil {
		s.dropListLocked(l)
	}
	w.prev, w.next, w.list = nil, nil, nil
	s.mu.count--
	return true
}

// newListLocked gives a key that has none its list.
func (s *shard[K]) newListLocked(key K) *list[K] {
	l := s.mu.spare
	if l == nil {
		l = new(list[K])
	} else {
		s.mu.spare, l.spare = l.spare, nil
		s.mu.spares--
	}
	l.key = key
	s.mu.lists[key] = l
	return l
}

// dropListLocked forgets a list that is empty, and its key.
func (s *shard[K]) dropListLocked(l *list[K]) {
	delete(s.mu.lists, l.key)
	if s.mu.spares == spareMax {
		return
	}
	var none K
	l.key = none // a topic's name need not stay
	s.mu.spare, l.spare = l, s.mu.spare
	s.mu.spares++
}

// appendWatchers appends those who watch key. It copies, so that they are looked at without the lock: a look may take long, and
// the one that completes goes back to this list to leave it.
func (l *watchLists[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.mu.lists[key]
	if list == nil {
		return dst
	}
	for w := list.first; w != nil; w = w.next {
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
