package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
)

// event is a unit of work for a shard's goroutine. There are two kinds. An event with run is
// handled alone. Adjacent events with prepare and stored share one append. If the shard cannot
// serve an event, it calls only the event's fail.
type event struct {
	run     func(now time.Time)
	prepare func(now time.Time) []state.Record // returns the records to store
	stored  func(error)                        // receives the result of storing the records
	fail    func(error)
}

// push queues an event. It returns false if the shard accepts no events now.
func (s *Shard[S, K, A]) push(e event) bool {
	s.queue.Lock()
	defer s.queue.Unlock()
	if !s.queue.open {
		return false
	}
	s.queue.events = append(s.queue.events, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

func (s *Shard[S, K, A]) takeEvents() []event {
	s.queue.Lock()
	defer s.queue.Unlock()
	events := s.queue.events
	s.queue.events = nil
	return events
}

// handle handles events in the order in which they were queued.
func (s *Shard[S, K, A]) handle(events []event) {
	for len(events) > 0 {
		if s.inconsistent || s.ctx.Err() != nil {
			s.failAll(events)
			return
		}
		n := slices.IndexFunc(events, func(e event) bool { return e.prepare == nil })
		switch {
		case n < 0:
			s.storeAll(time.Now(), events)
			return
		case n > 0:
			s.storeAll(time.Now(), events[:n])
		default:
			n = 1
			events[0].run(time.Now())
		}
		events = events[n:]
	}
}

// storeAll handles events that have a prepare function. It appends the records of all events in as
// few batches as possible: under load a coordinator spends most of its time on appends, and each
// append wakes the followers.
func (s *Shard[S, K, A]) storeAll(now time.Time, events []event) {
	var all []state.Record
	ends := make([]int, len(events)) // index in all at which each event's records end
	for i, e := range events {
		all = append(all, e.prepare(now)...)
		ends[i] = len(all)
	}
	for i, from := 0, 0; i < len(events); {
		n, err := s.store(now, state.Output[A]{Records: all[from:]}, noTransaction)
		for from += n; i < len(events) && ends[i] <= from; i++ {
			events[i].stored(nil)
		}
		if i == len(events) {
			return
		}
		events[i].stored(err)
		from, i = ends[i], i+1
		if errors.Is(err, state.ErrRecordTooLarge) {
			continue // records of later events may be small enough
		}
		// No record can be stored now. An attempt for each remaining event would build as many batches
		// without storing a record. So all events with records fail with the same error.
		for ; i < len(events); i++ {
			if ends[i] > from {
				events[i].stored(err)
			} else {
				events[i].stored(nil)
			}
			from = ends[i]
		}
	}
}

func (s *Shard[S, K, A]) failAll(events []event) {
	for _, e := range events {
		e.fail(s.reason())
	}
}

// result is the result of a function that ran in the shard's goroutine. last is the offset of the
// last record that the state contained at that time.
type result[T any] struct {
	value T
	err   error
	last  int64
}

// Call runs f in the shard's goroutine and stores the records of f's output. It returns f's value
// once every record on which the value may depend is below the high watermark.
func Call[T any, S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	f func(now time.Time, machine S) (T, state.Output[A], error)) (T, error) {
	done := make(chan result[T], 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			value, out, err := f(now, s.machine)
			if stored := s.apply(now, out); err == nil {
				err = stored
			}
			done <- result[T]{value, err, s.last}
		},
		fail: func(err error) { done <- result[T]{err: err, last: -1} },
	})
	return await(ctx, s, pushed, done)
}

// CallVolatile runs f in the shard's goroutine and returns f's error without waiting for the high
// watermark. f must neither store records nor reveal stored state.
func CallVolatile[S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	f func(now time.Time, machine S) error) error {
	done := make(chan error, 1)
	pushed := s.push(event{
		run:  func(now time.Time) { done <- f(now, s.machine) },
		fail: func(err error) { done <- err },
	})
	if !pushed {
		return s.refusal()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Store is like Call, for functions that only store records: their output contains no answers and
// does not set VolatileChanged. The shard appends the records of concurrent calls together.
func Store[T any, S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	f func(now time.Time, machine S) (T, state.Output[A], error)) (T, error) {
	done := make(chan result[T], 1)
	var got result[T]
	pushed := s.push(event{
		prepare: func(now time.Time) []state.Record {
			var out state.Output[A]
			got.value, out, got.err = f(now, s.machine)
			return out.Records
		},
		stored: func(err error) { done <- result[T]{got.value, cmp.Or(got.err, err), s.last} },
		fail:   func(err error) { done <- result[T]{err: err, last: -1} },
	})
	return await(ctx, s, pushed, done)
}

// Wait runs f in the shard's goroutine with a new token, and waits for the answer to that token.
// The machine may return the answer in a later call. If the request fails before the machine
// answers, the result's To is 0.
func Wait[S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	f func(now time.Time, machine S, to state.Token) state.Output[A]) (state.Answer[A], error) {
	done := make(chan answered[A], 1)
	pushed := s.push(event{
		run: func(now time.Time) {
			s.token++
			s.waiting[s.token] = done
			// After an error, either apply answers the token with the error, or the state is inconsistent
			// and unload answers all tokens.
			_ = s.apply(now, f(now, s.machine, s.token))
		},
		fail: func(err error) { done <- answered[A]{state.Answer[A]{Err: err}, -1} },
	})
	if !pushed {
		return state.Answer[A]{}, s.refusal()
	}
	select {
	case got := <-done:
		if got.Err == nil {
			got.Err = s.awaitStored(ctx, got.last)
		}
		return got.Answer, got.Err
	case <-ctx.Done():
		return state.Answer[A]{}, ctx.Err()
	}
}

// await waits for the result of a queued event, and then until every record on which the result may
// depend is below the high watermark. If pushed is false, the event was not accepted, and await
// returns the reason.
func await[T any, S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	pushed bool, done <-chan result[T]) (T, error) {
	var zero T
	if !pushed {
		return zero, s.refusal()
	}
	select {
	case got := <-done:
		if got.err == nil {
			got.err = s.awaitStored(ctx, got.last)
		}
		return got.value, got.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// refusal returns the error for a request whose event was not accepted by push.
func (s *Shard[S, K, A]) refusal() error {
	select {
	case <-s.done:
		return ErrNotCoordinator
	default:
		return s.reason()
	}
}
