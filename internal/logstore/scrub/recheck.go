package scrub

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// rechecks contains the targets that are checked again before the next targets of the round, each
// from its own time on.
type rechecks map[Target]recheck

type recheck struct {
	due      time.Time // zero: at once
	failures int       // number of consecutive checks that have failed
}

// add adds a target that is due at once, unless the target is known.
func (r rechecks) add(t Target) {
	if _, known := r[t]; !known {
		r[t] = recheck{}
	}
}

// next returns the target that is due first, and the time from which it is due.
func (r rechecks) next() (first Target, due time.Time, ok bool) {
	for t, one := range r {
		if !ok || one.due.Before(due) || one.due.Equal(due) && t.compare(first) < 0 {
			first, due, ok = t, one.due, true
		}
	}
	return first, due, ok
}

// first returns the target to check now. Otherwise it shortens a wait until a target is due.
func (r rechecks) first(now time.Time, wait time.Duration) (t Target, ok bool, left time.Duration) {
	t, due, ok := r.next()
	if !ok || !now.Before(due) {
		return t, ok, wait
	}
	return t, false, max(time.Millisecond, min(wait, due.Sub(now)))
}

// Recheck requests an early check of a segment in which a read has found damage. It does not block.
func (s *Scrubber) Recheck(id logstore.PartitionID, base int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspects = append(s.suspects, Target{Topic: id.Topic, Partition: id.Index, Base: base})
	s.wake()
}

// firstSuspects moves the targets of Recheck to the targets that are checked next.
func (s *Scrubber) takeSuspects() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.suspects {
		s.recheck.add(t)
	}
	s.suspects = nil
}

// recheckKnown requests checks of the segments in which an earlier process, or the start of this
// one, has found damage.
func (s *Scrubber) recheckKnown() {
	for _, d := range s.State().Damaged {
		s.recheck.add(d.Target)
		if sealed, exists := s.sealed(d.Target); exists && ofRecords(d.Places) {
			sealed.MarkDamaged()
		}
	}
	for _, log := range s.store.Logs() {
		for _, sealed := range log.AtRest() {
			if sealed.Damaged() {
				s.recheck.add(Target{Topic: log.ID().Topic, Partition: log.ID().Index,
					Base: sealed.Base})
			}
		}
	}
}

// recheckLater makes Run check a target again after a delay.
func (s *Scrubber) recheckLater(t Target, delay time.Duration) {
	s.recheck[t] = recheck{due: time.Now().Add(delay)}
}

// visitAgain checks a target of recheck, and returns how long to wait afterwards. If the repair of
// a target waits for a pass, which may take hours, the target is not read before the pass has
// ended. A check that fails is repeated after retryDelay, and meanwhile others take place.
func (s *Scrubber) visitAgain(ctx context.Context, t Target) (wait time.Duration) {
	if s.waitsForPass(t) {
		s.recheckLater(t, retryDelay)
		return 0
	}
	known, ofRound := s.recheck[t], s.failures
	delete(s.recheck, t)
	s.failures = known.failures
	wait = s.visit(ctx, t)
	failures := s.failures
	s.failures = ofRound
	switch {
	case wait == 0:
		return 0
	case failures == known.failures: // the scrub was turned off or stopped
		s.recheck[t] = known
		return wait
	}
	s.recheck[t] = recheck{due: time.Now().Add(wait), failures: failures}
	return 0
}

// waitsForPass reports whether a target has files to repair while a pass runs in the target's log.
func (s *Scrubber) waitsForPass(t Target) bool {
	if _, known := s.State().damaged(t); !known || t.Base < 0 || t.Retained != "" {
		return false
	}
	log := s.store.Log(t.id())
	return log != nil && s.opts.Cleaning(log)
}
