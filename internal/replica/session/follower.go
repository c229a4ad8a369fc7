package session

import (
	"iter"
	"maps"
	"slices"
)

// Follower stores the requests that a follower last sent to one leader. It is the client's side of
// a fetch session. P is the type of the fetch request for one partition. The zero value starts with
// a full fetch.
type Follower[P comparable] struct {
	id        ID // session id and epoch of the next fetch
	sent      map[Key]P
	forgotten []Key // partitions removed since the last fetch
}

// ID returns the session id and epoch of the next fetch.
func (f *Follower[P]) ID() ID { return f.id }

// Full reports whether the next fetch is a full one, which names every partition. In that case the
// caller calls Reset before it adds partitions.
func (f *Follower[P]) Full() bool { return f.id.Epoch == New }

// Reset deletes the stored requests, so that the next fetch is a full one.
func (f *Follower[P]) Reset() {
	clear(f.sent)
	f.forgotten = f.forgotten[:0]
}

// Update reports whether the next fetch must contain a partition's request, because the partition
// is new in the session, or the request differs from the last one that was sent. If so, Update
// stores the request as sent.
func (f *Follower[P]) Update(key Key, request P) bool {
	last, known := f.sent[key]
	if known && last == request {
		return false
	}
	if !known { // a fetch must not both name and forget a partition
		f.forgotten = slices.DeleteFunc(f.forgotten, func(k Key) bool { return k == key })
	}
	if f.sent == nil {
		f.sent = map[Key]P{}
	}
	f.sent[key] = request
	return true
}

// Remove makes the next fetch remove a partition from the session.
func (f *Follower[P]) Remove(key Key) {
	if _, known := f.sent[key]; known {
		delete(f.sent, key)
		f.forgotten = append(f.forgotten, key)
	}
}

// Forgotten returns the partitions that the next fetch removes. The slice is valid until another
// method is called.
func (f *Follower[P]) Forgotten() []Key { return f.forgotten }

// Sent returns the last request that was sent for a partition.
func (f *Follower[P]) Sent(key Key) (request P, ok bool) {
	request, ok = f.sent[key]
	return request, ok
}

// All iterates over the session's partitions and their last requests. The loop may call Remove.
func (f *Follower[P]) All() iter.Seq2[Key, P] { return maps.All(f.sent) }

// Len returns the number of partitions in the session.
func (f *Follower[P]) Len() int { return len(f.sent) }

// Succeeded processes a response. session is the session id in the response; if it is 0, the leader
// has no room for a session, or has just closed it.
func (f *Follower[P]) Succeeded(session int32) {
	f.forgotten = f.forgotten[:0]
	switch {
	case session == 0:
		f.id = ID{}
	case f.Full():
		f.id = ID{session, 1}
	case session != f.id.ID:
		f.Failed() // the response belongs to an unknown session
	default:
		f.id = f.id.Next()
	}
}

// Failed must be called if no response was received, because then it is unknown whether the fetch
// arrived. The next fetch closes the session and starts another one.
func (f *Follower[P]) Failed() { f.id.Epoch = New }

// Abandon must be called when the leader changes. The next fetch then starts a session at the new
// leader, which does not have the old session.
func (f *Follower[P]) Abandon() { f.id = ID{} }
