package transaction

import (
	"slices"
	"time"
)

// request is a request for one transactional id.
type request interface {
	token() Token
	// decide decides on the request on the basis of the stored state e, which is nil for an unknown
	// transactional id. It changes neither e nor the State.
	decide(now time.Time, c *Config, e *entry) decision
}

// decision is the result of request.decide.
type decision struct {
	store *entry // next stored state; nil if it does not change
	// wait is true if the request must be decided again once the transaction is complete. In that
	// case, the fields result and err are not used.
	wait   bool
	result Result
	err    error
	reason abortReason // reason for an abort that begins with the state store
}

func refuse(err error) decision { return decision{err: err} }

// run decides on requests, one after the other, starting in the state e. It adds the records and
// the answers to the output, and returns the requests that must wait.
//
// Until the output's records are stored, e is ahead of the stored state. If storing them fails, the
// runtime answers the requests with the error. The waiting requests continue to wait for the end of
// a transaction that is still in the stored state.
func (s *State) run(now time.Time, id string, e *entry, queue []parked, out *Output) (
	waiting []parked) {
	for i := 0; i < len(queue); {
		d := queue[i].decide(now, &s.config, e)
		if d.store != nil {
			e = d.store
			out.Records = append(out.Records, encode(id, *e))
			if d.reason != byClient {
				s.byID[id].ownAbort = d.reason
			}
			e = s.completeEmpty(now, id, e, out)
		}
		switch {
		case d.wait && e.phase.prepared():
			waiting = append(waiting, queue[i])
		case d.wait:
			continue // the transaction is already complete
		default:
			out.Answers = append(out.Answers, Answer{To: queue[i].token(), Result: d.result,
				Err: d.err})
		}
		i++
	}
	return waiting
}

// completeEmpty completes a decided transaction at once if it has no partitions.
func (s *State) completeEmpty(now time.Time, id string, e *entry, out *Output) *entry {
	if !e.phase.prepared() || len(e.partitions) > 0 {
		return e
	}
	done := e.completed(now)
	out.Records = append(out.Records, encode(id, done))
	return &done
}

// handle decides on a new request.
func (s *State) handle(now time.Time, id string, r request) (out Output) {
	t := s.byID[id]
	var e *entry
	if t != nil {
		e = &t.entry
	}
	if waiting := s.run(now, id, e, []parked{{r, now.Add(ParkedMax)}}, &out); len(waiting) > 0 {
		s.park(now, t, waiting)
	}
	return out
}

// park adds requests that wait for the transaction's end.
func (s *State) park(now time.Time, t *transaction, waiting []parked) {
	t.parked = append(t.parked, waiting...)
	s.timers.Set(TimerKey{t.id, parkedTimer}, max(0, t.parked[0].deadline.Sub(now)))
}

// Acknowledged must be called when partitions have written the marker with the given serial number,
// below their high watermark. After the last partition it returns the record that completes the
// transaction.
func (s *State) Acknowledged(now time.Time, id string, serial uint64,
	partitions []Partition) (out Output) {
	t := s.byID[id]
	if t == nil || t.serial != serial || !t.phase.prepared() {
		return out // the acknowledgement was repeated
	}
	for _, p := range partitions {
		delete(t.unmarked, p)
	}
	if len(t.unmarked) > 0 {
		return out
	}
	return s.complete(now, t)
}

// complete returns the record that completes a transaction, and decides on the requests that have
// waited for this. If the record cannot be stored, completeTimer triggers another attempt.
func (s *State) complete(now time.Time, t *transaction) (out Output) {
	done := t.completed(now)
	out.Records = append(out.Records, encode(t.id, done))
	s.timers.Set(TimerKey{t.id, completeTimer}, retryInterval)
	s.timers.Clear(TimerKey{t.id, parkedTimer})
	queue := t.parked
	t.parked = nil
	if waiting := s.run(now, t.id, &done, queue, &out); len(waiting) > 0 {
		s.park(now, t, waiting)
	}
	return out
}

// Fire handles an expired timer.
func (s *State) Fire(now time.Time, key TimerKey) (out Output) {
	t := s.byID[key.ID]
	switch {
	case t == nil:
	case key.Kind == abortTimer && t.phase == Ongoing:
		return s.timeOut(now, t)
	case key.Kind == parkedTimer:
		return s.giveUpParked(now, t)
	case key.Kind == completeTimer && t.phase.prepared() && len(t.unmarked) == 0:
		return s.complete(now, t)
	}
	return out
}

// timeOut aborts an Ongoing transaction whose deadline has been reached.
func (s *State) timeOut(now time.Time, t *transaction) (out Output) {
	if now.Before(s.grace) || now.Before(t.deadline()) {
		s.setAbortTimer(now, t)
		return out
	}
	// If the record cannot be stored, the timer triggers another attempt.
	s.timers.Set(TimerKey{t.id, abortTimer}, retryInterval)
	s.run(now, t.id, &t.entry, []parked{{request: &ownAbort{reason: timedOut}}}, &out)
	return withoutAnswers(out)
}

// giveUpParked answers the requests that have waited for too long.
func (s *State) giveUpParked(now time.Time, t *transaction) (out Output) {
	n := slices.IndexFunc(t.parked, func(p parked) bool { return p.deadline.After(now) })
	if n < 0 {
		n = len(t.parked)
	}
	for _, p := range t.parked[:n] {
		out.Answers = append(out.Answers, Answer{To: p.token(), Err: ErrConcurrent})
	}
	if t.parked = slices.Clone(t.parked[n:]); len(t.parked) > 0 {
		s.park(now, t, nil)
	}
	return out
}

// Abort aborts an Ongoing transaction at an administrator's request.
func (s *State) Abort(now time.Time, id string) (out Output, err error) {
	t := s.byID[id]
	switch {
	case t == nil:
		return out, ErrNotFound
	case t.phase != Ongoing:
		return out, ErrInvalidState
	}
	s.run(now, id, &t.entry, []parked{{request: &ownAbort{reason: fenced}}}, &out)
	err = out.Answers[0].Err
	return withoutAnswers(out), err
}

// withoutAnswers removes the answers to requests that no client has sent.
func withoutAnswers(out Output) Output {
	out.Answers = slices.DeleteFunc(out.Answers, func(a Answer) bool { return a.To == 0 })
	return out
}

// ownAbort is the coordinator's own request to abort an Ongoing transaction.
type ownAbort struct{ reason abortReason }

func (*ownAbort) token() Token { return 0 }

func (a *ownAbort) decide(now time.Time, c *Config, e *entry) decision {
	aborted, err := e.fenced(now, c)
	if err != nil {
		return refuse(err)
	}
	return decision{store: &aborted, reason: a.reason}
}

// fenced returns the entry of an Ongoing transaction after the coordinator has decided to abort it.
// The epoch is bumped in all transaction versions, so that batches of the current producer are
// rejected once the marker is in the log.
func (e *entry) fenced(now time.Time, c *Config) (entry, error) {
	aborted := e.prepared(now, PrepareAbort, true)
	aborted.lastEpoch = noEpoch
	return aborted.withNextID(c, e.needsNextID(e.version))
}

// withNextID returns the entry with a new producer id for Complete*, if one is needed.
func (e entry) withNextID(c *Config, needed bool) (entry, error) {
	if !needed {
		return e, nil
	}
	id, err := c.ProducerID()
	e.nextID = id
	return e, err
}
