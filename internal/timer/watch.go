package timer

// watchLists say which operations watch which key. They have no lock: the purgatory's guards them.
type watchLists[K comparable] struct {
	lists  map[K]*list[K] // never an empty list: a key without watchers is not in the map
	spare  *list[K]       // chain of lists without a key
	spares int            // its length
	places int64          // in all lists
	purged int64          // places given up since the start
}

// sparesMax bounds the lists that are kept for keys to come.
const sparesMax = 1024

// list is who watches one key.
type list[K comparable] struct {
	key   K
	first *place[K]
	spare *list[K] // the next of the chain
}

// place is an operation's place in one key's list.
type place[K comparable] struct {
	of         *item[K]
	list       *list[K]
	prev, next *place[K]
}

// keysMax bounds the keys for which add and remove keep the purgatory's lock at once: some ten
// microseconds.
const keysMax = 64

// add lets an item watch the first of keys, keysMax at most, and returns those that are left. O(1)
// a key: the order within a list has no meaning. it.places has room for all.
func (l *watchLists[K]) add(it *item[K], keys []K) (left []K) {
	now, left := keys[:min(len(keys), keysMax)], keys[min(len(keys), keysMax):]
	for _, key := range now {
		list := l.lists[key]
		if list == nil {
			list = l.newList(key)
		}
		it.places = it.places[:len(it.places)+1]
		p := &it.places[len(it.places)-1]
		p.of, p.list = it, list
		if p.next = list.first; p.next != nil {
			p.next.prev = p
		}
		list.first = p
	}
	l.places += int64(len(now))
	return left
}

// remove takes an item out of keysMax of its lists, and tells whether it is in more.
func (l *watchLists[K]) remove(it *item[K]) (more bool) {
	first := max(len(it.places)-keysMax, 0)
	now := it.places[first:]
	it.places = it.places[:first]
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
		*p = place[K]{}
	}
	l.places -= int64(len(now))
	l.purged += int64(len(now))
	return first > 0
}

// newList gives a key that has none its list.
func (l *watchLists[K]) newList(key K) *list[K] {
	made := l.spare
	if made == nil {
		made = new(list[K])
	} else {
		l.spare, made.spare = made.spare, nil
		l.spares--
	}
	made.key = key
	if l.lists == nil {
		l.lists = map[K]*list[K]{}
	}
	l.lists[key] = made
	return made
}

// dropList forgets a list that is empty, and its key.
func (l *watchLists[K]) dropList(empty *list[K]) {
	delete(l.lists, empty.key)
	if l.spares == sparesMax {
		return
	}
	var none K
	empty.key = none // a topic's name need not stay
	empty.spare, l.spare = l.spare, empty
	l.spares++
}

// appendWatchers appends those who watch key.
func (l *watchLists[K]) appendWatchers(dst []*item[K], key K) []*item[K] {
	if list := l.lists[key]; list != nil {
		for p := list.first; p != nil; p = p.next {
			dst = append(dst, p.of)
		}
	}
	return dst
}
