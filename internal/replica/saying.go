package replica

import "slices"

// saying is what a follower has said to one leader in a fetch session, and so what it need not say
// again: the other end of a session. It is plain, and of one goroutine. (FetchSessionHandler in
// Kafka.)
//
// Invariant: while epoch > 0, said is what the leader's session has, once the fetch under way has
// arrived. Whoever cannot know whether it did begins anew.
type saying struct {
	id        SessionID // of the next fetch; Epoch 0: it begins a session, and names everything
	said      map[PartitionKey]FollowerPartition
	forgotten []PartitionKey // to be said with the next fetch
}

// isNew tells whether the next fetch names everything. That it begins is noted by begin.
func (s *saying) isNew() bool { return s.id.Epoch == SessionNew }

// begin begins a fetch that names everything: nothing was said.
func (s *saying) begin() {
	clear(s.said)
	s.forgotten = s.forgotten[:0]
}

// say tells whether a partition has to be in the next fetch: it is new there, or something of it
// is. If so, it counts as said.
func (s *saying) say(at *FollowerPartition) bool {
	key := KeyOf(at.Topic, at.ID)
	was, named := s.said[key]
	if named && was == *at {
		return false
	}
	if !named { // what is forgotten in a fetch that names it is gone
		s.forgotten = slices.DeleteFunc(s.forgotten,
			func(of PartitionKey) bool { return of == key })
	}
	if s.said == nil {
		s.said = map[PartitionKey]FollowerPartition{}
	}
	s.said[key] = *at
	return true
}

// forget has the next fetch take a partition out.
func (s *saying) forget(key PartitionKey) {
	if _, named := s.said[key]; named {
		delete(s.said, key)
		s.forgotten = append(s.forgotten, key)
	}
}

// answered takes in that the leader has answered, and by which session; 0 is none: either it has no
// room for one, or it has just given this one up.
func (s *saying) answered(session int32) {
	s.forgotten = s.forgotten[:0]
	switch {
	case session == 0:
		s.id = SessionID{}
	case s.isNew():
		s.id = SessionID{session, 1}
	case session != s.id.ID:
		s.failed() // nobody's
	default:
		s.id = s.id.Next()
	}
}

// failed takes in that there was no answer: what has arrived is unknown. The next fetch ends the
// session and begins another.
func (s *saying) failed() { s.id.Epoch = SessionNew }
