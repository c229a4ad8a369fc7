package timer

import "sync/atomic"

// Operation is a delayed request.
type Operation interface {
	// TryComplete checks the state for which the operation waits. If the state has been reached,
	// TryComplete completes the operation and returns true. The purgatory never calls it concurrently,
	// and never again after it has returned true. If it panics, the operation has not completed, and
	// the purgatory calls it again at the next event.
	TryComplete() bool
	// Expire ends the operation because its timeout has passed, it was cancelled, or the purgatory was
	// closed. The purgatory calls Expire at most once, and only if TryComplete has not returned true.
	Expire()
}

// These are the bits of a waiter's state.
const (
	checking uint32 = 1 << iota // a goroutine is inside TryComplete or Expire
	recheck                     // an event occurred while checking was set: check once more
	// the timeout passed while checking was set: expire the operation unless a check completes it
	expire
	done // the operation has ended; final
)

// ending is the outcome of a call of waiter.check or waiter.expire.
type ending int

const (
	pending   ending = iota // the operation still waits, or another call has ended it
	completed               // this call ended the operation: TryComplete returned true
	expired                 // this call ended the operation: it called Expire
)

// waiter ends an operation exactly once, even if events, the timeout and cancellations occur
// concurrently.
//
// It has no lock, because TryComplete can take long and must not block the goroutine of the next
// event. If goroutine A finds that goroutine B is inside TryComplete or Expire, A sets a bit and
// returns, and B checks again before it leaves. No event is lost, because B leaves by a
// compare-and-swap that clears the bit checking. If A sets its bit first, B's compare-and-swap
// fails, and B checks again. If B clears checking first, A's compare-and-swap fails, and A checks
// the operation itself.
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

// enter calls inside, unless another goroutine is already inside. In that case enter sets the bit
// reason in the state, and the other goroutine handles it.
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

// inside handles the given reason, and then the reasons that other goroutines have set in the
// state, until no reason remains or the operation has ended. Only one goroutine at a time is
// inside. Store(done) can overwrite bits that other goroutines have just set. That is correct,
// because the calls of these goroutines have returned pending, and this call returns the ending.
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
		// This case precedes the case of expire, because an event that occurred before the timeout takes
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
