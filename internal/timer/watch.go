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
		lists   map[K]*list[K] // never an empty list: a key without watchers is not in the map
		added   int64          // places given since the start
		removed int64          // places given up since the start
		spare   *list[K]       // chain of lists without a key
		spares  int            // its length
	}
	_ [16]byte // 48 + 16 bytes, a cache line each, or two cores that lock neighbours would take the line from each other
}

// list is what watches one key. A key that nobody watched a moment ago is the rule, so emptied lists are used again.
type list[K comparable] struct {
	key   K
	first *watch[K]
	spare *list[K] // the next of the chain
}

// watch is an operation's place in one key's list. The key's shard never changes; its lock guards what follows.
type watch[K comparable] struct {
	of    *item[K]
	shard uint8

	list       *list[K] // nil: in none
	prev, next *watch[K]
}

func newWatchLists[K comparable]() *watchLists[K] {
	l := &watchLists[K]{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].mu.lists = map[K]*list[K]{}
	}
	return l
}

// shard returns the number of the shard a key belongs to. The seed is random: nobody can choose keys that all meet in one.
func (l *watchLists[K]) shard(key K) uint8 {
	return uint8(maphash.Comparable(l.seed, key) % shards)
}

// add lets an item watch keys, one for each of its places, in O(1) a key: the order within a list has no meaning. Keys of one shard
// that follow each other take its lock once.
func (l *watchLists[K]) add(watches []watch[K], keys []K) {
	var s *shard[K]
	for i := range watches {
		w := &watches[i]
		s = l.lock(s, w.shard)
		list := s.mu.lists[keys[i]]
		if list == nil {
			list = s.newListLocked(keys[i])
		}
		if w.next = list.first; w.next != nil {
			w.next.prev = w
		}
		list.first = w
		w.list = list
		s.mu.added++
	}
	if s != nil {
		s.mu.Unlock()
	}
}

// remove takes places out of their lists, those that are in one, in O(1) each.
func (l *watchLists[K]) remove(watches []watch[K]) {
	var s *shard[K]
	for i := range watches {
		w := &watches[i]
		s = l.lock(s, w.shard)
		if w.list != nil {
			s.removeLocked(w)
		}
	}
	if s != nil {
		s.mu.Unlock()
	}
}

// lock locks a shard in place of held, which may be the same or nil.
func (l *watchLists[K]) lock(held *shard[K], number uint8) *shard[K] {
	s := &l.shards[number]
	if s == held {
		return s
	}
	if held != nil {
		held.mu.Unlock()
	}
	s.mu.Lock()
	return s
}

func (s *shard[K]) removeLocked(w *watch[K]) {
	l := w.list
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else if l.first = w.next; l.first == nil {
		s.dropListLocked(l)
	}
	w.prev, w.next, w.list = nil, nil, nil
	s.mu.removed++
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
	s := &l.shards[l.shard(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.mu.lists[key]; list != nil {
		for w := list.first; w != nil; w = w.next {
			dst = append(dst, w.of)
		}
	}
	return dst
}

// counts are the places in all lists, and those that were given up since the start.
func (l *watchLists[K]) counts() (watched, removed int64) {
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		watched += s.mu.added - s.mu.removed
		removed += s.mu.removed
		s.mu.Unlock()
	}
	return watched, removed
}
