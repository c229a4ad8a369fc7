package local

import (
	"context"
	"errors"
	"sync"

	"heartwood.dev/heartwood/internal/metadata"
)

// proposals wait for the next write of the file. A leader whose follower falls behind proposes for all their partitions at once, and
// one write does for them all.
type proposals struct {
	sync.Mutex
	waiting []*proposal
}

// proposal is a ChangeISR under way.
type proposal struct {
	change metadata.ISRChange
	err    error // valid once done is closed
	done   chan struct{}
}

// ChangeISR implements metadata.Store. Whoever gets the lock makes all proposals that wait by then, so each caller finds its own
// made, by itself or by another, once it had the lock.
func (s *Store) ChangeISR(_ context.Context, change metadata.ISRChange) error {
	mine := &proposal{change: change, done: make(chan struct{})}
	s.proposals.Lock()
	s.proposals.waiting = append(s.proposals.waiting, mine)
	s.proposals.Unlock()

	s.changing.Lock()
	s.proposals.Lock()
	waiting := s.proposals.waiting
	s.proposals.waiting = nil
	s.proposals.Unlock()
	if len(waiting) > 0 {
		s.proposeLocked(waiting)
	}
	s.changing.Unlock()
	<-mine.done
	return mine.err
}

// proposeLocked makes proposals, each for itself: one that is refused leaves the others.
func (s *Store) proposeLocked(waiting []*proposal) {
	err := s.changeLocked(wishes{}, func(d *document) error {
		for _, p := range waiting {
			p.err = d.changeISR(p.change, s.changing.up)
		}
		return nil
	})
	for _, p := range waiting {
		p.err = errors.Join(p.err, err)
		close(p.done)
	}
}
