package logstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// turns lends the workers to the passes. There are as many passes as have work and memory; who
// works at a moment holds a worker, and who has had a turn gives it to the one that waits longest.
// So a log of a terabyte and one of a megabyte share the workers, and the small one is done soon
// (ADR 0110).
//
// Invariants, under mu: free = workers - workers held; a row only while free <= 0.
type turns struct {
	mu struct {
		sync.Mutex
		workers int
		free    int // below 0 for a while after resize
		row     []chan struct{}
	}
}

// resize sets how many workers there are. If they are fewer, those that are too many are given back
// at the end of their turns.
func (t *turns) resize(workers int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.free += workers - t.mu.workers
	t.mu.workers = workers
	t.lendLocked()
}

// lendLocked gives free workers to those who wait.
func (t *turns) lendLocked() {
	for t.mu.free > 0 && len(t.mu.row) > 0 {
		close(t.mu.row[0])
		t.mu.row = t.mu.row[1:]
		t.mu.free--
	}
}

// take waits for a worker, behind all that wait already. On an error it has none.
func (t *turns) take(ctx context.Context) error {
	t.mu.Lock()
	mine := make(chan struct{})
	t.mu.row = append(t.mu.row, mine)
	t.lendLocked()
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := slices.Index(t.mu.row, mine); at >= 0 {
		t.mu.row = slices.Delete(t.mu.row, at, at+1)
	} else { // it came at the same moment
		t.mu.free++
		t.lendLocked()
	}
	return ctx.Err()
}

// try takes a worker if one is free.
func (t *turns) try() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.free <= 0 {
		return false
	}
	t.mu.free--
	return true
}

// give gives back n workers.
func (t *turns) give(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.free += n
	t.lendLocked()
}

// wanted tells whether somebody waits, or there are fewer workers than are held.
func (t *turns) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.row) > 0 || t.mu.free < 0
}

// busy is how many workers are held, idle how many are not.
func (t *turns) busy() (busy, idle int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.workers - t.mu.free, max(0, t.mu.free)
}

// A turn lasts until so much was read and written, or so much time has passed: long enough that a
// pass reads and writes in large pieces, short enough that nobody waits for a segment of a
// gigabyte.
const (
	turnBytes = 16 << 20
	turnTime  = time.Second
)

// shift is the workers that one pass holds: one, and while its slices are resolved as many more as
// nobody else wants. They are alike: any goroutine of the pass may give one up for the others.
//
// Lock order for those who wait: the right to make a sidecar (Cleaner.maker) comes before a worker.
// Who waits for it holds none.
type shift struct {
	turns *turns
	held  atomic.Int32
	began atomic.Int64 // of the turn, Unix nanoseconds
	bytes atomic.Int64 // read and written in it
}

// tryBegin begins the first turn if a worker is free.
func (s *shift) tryBegin() bool {
	if !s.turns.try() {
		return false
	}
	s.held.Add(1)
	s.renew()
	return true
}

// begin waits for the next turn.
func (s *shift) begin(ctx context.Context) error {
	if err := s.turns.take(ctx); err != nil {
		return err
	}
	s.held.Add(1)
	s.renew()
	return nil
}

// renew begins a turn.
func (s *shift) renew() {
	s.bytes.Store(0)
	s.began.Store(time.Now().UnixNano())
}

// spent counts n bytes, and when the turn is over waits for the next one, if somebody else wants
// the worker. On an error, which is that of ctx, the worker is given back.
func (s *shift) spent(ctx context.Context, n int) error {
	if s == nil || s.bytes.Add(int64(n)) < turnBytes &&
		time.Now().UnixNano()-s.began.Load() < int64(turnTime) {
		return nil
	}
	if !s.turns.wanted() {
		s.renew()
		return nil
	}
	return s.away(ctx, func() error { return nil })
}

// away gives the worker back, does something that waits for others, and takes one again. A pass
// without a shift, by hand, has none to give.
func (s *shift) away(ctx context.Context, do func() error) error {
	if s == nil {
		return do()
	}
	s.held.Add(-1)
	s.turns.give(1)
	if err := do(); err != nil {
		return err
	}
	return s.begin(ctx)
}

// parallel calls do(0) to do(n-1), on as many goroutines as there are workers that nobody wants,
// and returns when all have returned.
func (s *shift) parallel(n int, do func(int)) {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
		}
	}
	var others sync.WaitGroup
	for range n - 1 {
		if !s.turns.try() {
			break
		}
		s.held.Add(1)
		others.Go(work)
	}
	work()
	others.Wait()
	for s.held.Load() > 1 {
		s.held.Add(-1)
		s.turns.give(1)
	}
}

// end gives back what is held.
func (s *shift) end() { s.turns.give(int(s.held.Swap(0))) }
