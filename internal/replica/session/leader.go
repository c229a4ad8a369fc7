package session

import "fmt"

// Sequence checks that a session's fetches arrive in order.
type Sequence struct{ next int32 }

// NewSequence returns the sequence of a new session, whose first fetch is a full one.
func NewSequence() Sequence { return Sequence{next: 1} }

// Accept processes a fetch of the session. If id is not the ID of the next fetch, Accept returns
// ErrEpoch and changes nothing.
func (s *Sequence) Accept(id ID) error {
	switch {
	case id.Epoch == New:
	case id.Epoch != s.next:
		return fmt.Errorf("%w: got %d, want %d", ErrEpoch, id.Epoch, s.next)
	default:
		s.next = id.Next().Epoch
	}
	return nil
}

// Mark is embedded in the type of a session's partitions, so that they can be elements of a
// DirtyList.
type Mark struct{ dirty, removed bool }

func (m *Mark) mark() *Mark { return m }

// Marked is a pointer to a struct that embeds Mark.
type Marked interface{ mark() *Mark }

// DirtyList lists a session's partitions that may have something to report, in the order in which
// they became dirty. It contains no partition twice. The zero value is empty.
type DirtyList[P Marked] struct{ list []P }

// Add marks a partition dirty, unless it was removed from the session.
func (d *DirtyList[P]) Add(partition P) {
	if m := partition.mark(); !m.dirty && !m.removed {
		m.dirty = true
		d.list = append(d.list, partition)
	}
}

// Take empties the list and returns its partitions, except those that were removed from the session
// since they were added. Later events can mark the partitions dirty again.
func (d *DirtyList[P]) Take() []P {
	taken := d.list
	d.list = nil
	kept := taken[:0]
	for _, partition := range taken {
		m := partition.mark()
		m.dirty = false
		if !m.removed {
			kept = append(kept, partition)
		}
	}
	return kept
}

// Remove removes a partition from the session. The partition is never dirty again.
func (d *DirtyList[P]) Remove(partition P) { partition.mark().removed = true }

// Len returns the length of the list.
func (d *DirtyList[P]) Len() int { return len(d.list) }
