package timer

// watchLists lists the operations that watch each key. The purgatory's lock guards it.
type watchLists[K comparable] struct {
	lists  map[K]*list[K] // lists by key, of keys with watchers only
	spare  *list[K]       // linked list of unused lists, kept for reuse
	spares int            // length of the list spare
	links  int64          // current number of links, in all lists
	purged int64          // number of links removed since the start
}

// spareListsMax is the maximum number of unused lists that are kept for reuse.
const spareListsMax = 1024

// list contains the watchers of one key.
type list[K comparable] struct {
	key   K
	first *link[K]
	spare *list[K] // next unused list
}

// link is an operation's entry in the list of one key.
type link[K comparable] struct {
	item       *item[K]
	list       *list[K]
	prev, next *link[K]
}

// keysPerLock is the maximum number of keys that add and remove process in a call. They take about
// ten microseconds, during which the caller holds the purgatory's lock.
const keysPerLock = 64

// add adds an item to the lists of the first keysPerLock keys, and returns the remaining keys. It
// takes O(1) per key, because the lists are unordered. The capacity of it.links must suffice for
// all of the item's keys, so that its links do not move.
func (l *watchLists[K]) add(it *item[K], keys []K) (left []K) {
	now, left := keys[:min(len(keys), keysPerLock)], keys[min(len(keys), keysPerLock):]
	for _, key := range now {
		list := l.lists[key]
		if list == nil {
			list = l.newList(key)
		}
		it.links = it.links[:len(it.links)+1]
		p := &it.links[len(it.links)-1]
		p.item, p.list = it, list
		if p.next = list.first; p.next != nil {
			p.next.prev = p
		}
		list.first = p
	}
	l.links += int64(len(now))
	return left
}

// remove removes an item's last keysPerLock links from their lists, and reports whether the item
// has more links.
func (l *watchLists[K]) remove(it *item[K]) (more bool) {
	first := max(len(it.links)-keysPerLock, 0)
	now := it.links[first:]
	it.links = it.links[:first]
	for i := range now {
		p := &now[i]
		if p.next != nil {
			p.next.prev = p.prev
		}
		if p.prev != nil {
			p.prev.next = p.next
		} else if p.list.first = p.next; p.next == nil {
			l.dropList(p.list)
		}
		*p = link[K]{}
	}
	l.links -= int64(len(now))
	l.purged += int64(len(now))
	return first > 0
}

// newList creates a list for key, or reuses one.
func (l *watchLists[K]) newList(key K) *list[K] {
	created := l.spare
	if created == nil {
		created = new(list[K])
	} else {
		l.spare, created.spare = created.spare, nil
		l.spares--
	}
	created.key = key
	if l.lists == nil {
		l.lists = map[K]*list[K]{}
	}
	l.lists[key] = created
	return created
}

// dropList removes an empty list from the map, and keeps it for reuse.
func (l *watchLists[K]) dropList(empty *list[K]) {
	delete(l.lists, empty.key)
	if l.spares == spareListsMax {
		return
	}
	var none K
	empty.key = none // lets the garbage collector free the key's memory, such as a topic name
	empty.spare, l.spare = l.spare, empty
	l.spares++
}

// appendWatchers appends the items that watch key to dst.
func (l *watchLists[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	if list := l.lists[key]; list != nil {
		for p := list.first; p != nil; p = p.next {
			dst = append(dst, p.item)
		}
	}
	return dst
}
