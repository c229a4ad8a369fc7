package runtime

import (
	"context"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
)

// effectRetry is the time between two attempts to wait for the high watermark.
const effectRetry = 100 * time.Millisecond

// effects contains the results of answers with token state.Effect that have not been released yet.
// One goroutine releases them, in the order in which the machine returned them.
type effects[A any] struct {
	// ctx ends when the shard discards the machine. Only the shard's goroutine cancels ctx. So if an
	// event finds that ctx has not ended, the machine is still the one that returned the effect.
	ctx  context.Context //nolint:containedctx // canceled by close
	stop context.CancelFunc
	done chan struct{} // closed after the goroutine has returned
	wake chan struct{} // channel with a buffer of one

	mu      sync.Mutex
	waiting []effect[A]
}

// effect is a result that is released once the record at offset last is below the high watermark.
type effect[A any] struct {
	result A
	last   int64
}

func (s *Shard[S, K, A]) startEffects() {
	e := &effects[A]{done: make(chan struct{}), wake: make(chan struct{}, 1)}
	e.ctx, e.stop = context.WithCancel(s.ctx)
	s.effects = e
	go func() {
		defer close(e.done)
		s.releaseAll(e)
	}()
}

// close ends the goroutine, and returns when it has ended.
func (e *effects[A]) close() {
	e.stop()
	<-e.done
}

func (e *effects[A]) add(result A, last int64) {
	e.mu.Lock()
	e.waiting = append(e.waiting, effect[A]{result, last})
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *effects[A]) take() []effect[A] {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.waiting
	e.waiting = nil
	return all
}

// releaseAll is the goroutine of e.
func (s *Shard[S, K, A]) releaseAll(e *effects[A]) {
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.wake:
		}
		for _, one := range e.take() {
			if !s.awaitEffect(e.ctx, one.last) {
				return
			}
			s.runtime.opts.Release(e.ctx, s, one.result)
		}
	}
}

// awaitEffect waits until the record at offset last is below the high watermark, however long that
// takes. It returns false if ctx ends first.
func (s *Shard[S, K, A]) awaitEffect(ctx context.Context, last int64) bool {
	for {
		if err := s.awaitStored(ctx, last); err == nil {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(effectRetry):
		}
	}
}

// Post runs f in the shard's goroutine and stores the records of its output. It does not wait, and
// it does nothing if ctx has ended. ctx must be the context passed to Options.Release, so that f
// runs either with the machine that returned the effect, or not at all.
func Post[S Machine[K, A], K comparable, A any](ctx context.Context, s *Shard[S, K, A],
	f func(now time.Time, machine S) state.Output[A]) {
	s.push(event{
		run: func(now time.Time) {
			if ctx.Err() == nil {
				// if the records are not stored, the machine will return them again
				_ = s.apply(now, f(now, s.machine))
			}
		},
		fail: func(error) {},
	})
}
