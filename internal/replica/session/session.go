package session

import (
	"errors"

	"heartwood.dev/heartwood/internal/metadata"
)

// These errors mean that a fetch is rejected as part of its session. The client then starts a new
// session.
var (
	ErrNotFound = errors.New("fetch session not found")
	ErrEpoch    = errors.New("invalid fetch session epoch")
	// ErrTopicIDs means that a session's fetches name topics partly by id and partly by name. All must
	// use the same.
	ErrTopicIDs = errors.New("fetch session mixes topic ids and topic names")
)

// ID identifies a fetch session and one of its fetches. The session id 0 means that there is no
// session. A fetch with epoch New requests a new session, and one with epoch None requests none.
// Both name every partition, and close the session with the given id. A fetch with any other epoch
// names only the partitions that have changed since the session's previous fetch.
type ID struct{ ID, Epoch int32 }

// New and None are special epochs, which do not number a fetch within a session.
const (
	New  int32 = 0
	None int32 = -1
)

// Full reports whether the fetch names every partition.
func (id ID) Full() bool { return id.Epoch == New || id.Epoch == None }

// Next returns the ID of the following fetch. The largest epoch is followed by epoch 1.
func (id ID) Next() ID { return ID{id.ID, max(id.Epoch+1, 1)} }

// Key identifies a partition in a session by the topic's id, or by the topic's name if the client
// does not know the id.
type Key struct {
	Topic metadata.ID
	Name  string // "" unless Topic is zero
	Index int32
}

// KeyOf returns the key of a partition as a fetch names it.
func KeyOf(topic metadata.ID, name string, index int32) Key {
	if topic != (metadata.ID{}) {
		return Key{Topic: topic, Index: index}
	}
	return Key{Name: name, Index: index}
}
