package timer

import "sync/atomic"

// Operation is a delayed request.
type Operation interface {
	// TryComplete checks the state for which the operation waits. If the state has been reached, it
	// completes the operation and returns true. The purgatory never calls it concurrently, and
	// never again after it has returned true. If it panics, the operation has not completed, and
	// the next event calls it again.
	TryComplete() bool
	// Expire ends the operation because its timeout has passed, it was cancelled, or the purgatory
	// was closed. It is called at most once, and only if TryComplete has not returned true.
	Expire()
}

// The bits of a waiter's state.
const (
	checking uint32 = 1 << iota // a goroutine is inside TryComplete or Expire
	recheck                     // an event occurred while checking was set: check once more
	// the timeout passed while checking was set: expire unless a check completes
	expire
	done // the operation has ended; final
)

// ending is the outcome of a call of check or expire.
type ending int

const (
	pending   ending = iota // the operation still waits, or another call ended it
	completed               // this call ended it: TryComplete returned true
	expired                 // this call ended it: it called Expire
)

// waiter ends an operation exactly once, even if events, the timeout and cancellations occur
// concurrently.
//
// It has no lock, because TryComplete may take long and must not block the goroutine of the next
// event. If goroutine A finds that goroutine B is inside TryComplete or Expire, A sets a bit and
// returns, and B checks again before it leaves. No event is lost: B leaves by a compare-and-swap
// that clears checking. If A sets the bit before, this compare-and-swap fails, and B checks again.
// If B clears checking before, the compare-and-swap of A fails, and A enters itself.
type waiter struct {
	op    Operation
	guard *guard
	state atomic.Uint32
}

// ended reports whether the operation has ended, which is final.
func (w *waiter) ended() bool { return w.state.Load()&done != 0 }

// check tries to complete the operation.
func (w *waiter) check() ending { return w.enter(recheck) }

// expire expires the operation unless it completes first.
func (w *waiter) expire() ending { return w.enter(expire) }

// enter calls inside. If another goroutine is already inside, enter sets the bit reason in the
// state instead, and the other goroutine handles it.
func (w *waiter) enter(reason uint32) ending {
	for {
		state := w.state.Load()
		switch {
		case state&done != 0:
			return pending
		case state&checking != 0:
			if w.state.CompareAndSwap(state, state|reason) {
				return pending
			}
		default:
			if w.state.CompareAndSwap(0, checking) {
				return w.inside(reason)
			}
		}
	}
}

// inside handles the given reason and then the reasons that other goroutines have set in the state,
// until no reason remains or the operation has ended. Only one goroutine is inside at a time.
// Store(done) may overwrite bits that other goroutines have set meanwhile. That is correct: these
// goroutines have returned pending, and this call returns the ending.
func (w *waiter) inside(reason uint32) ending {
	for {
		if reason&recheck != 0 {
			reason &^= recheck
			if w.guard.tryComplete(w.op) {
				w.state.Store(done)
				return completed
			}
		}
		state := w.state.Load()
		switch {
		// This case precedes the case of expire: an event that occurred before the timeout takes
		// precedence.
		case state&recheck != 0:
			// Clear the bit before the check: an event during the check sets it again.
			if w.state.CompareAndSwap(state, state&^recheck) {
				reason |= recheck
			}
		case (reason|state)&expire != 0:
			w.guard.expire(w.op)
			w.state.Store(done)
			return expired
		default:
			if w.state.CompareAndSwap(checking, 0) {
				return pending
			}
		}
	}
}
