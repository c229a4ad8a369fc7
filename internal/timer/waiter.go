package timer

import "sync/atomic"

// Operation is a delayed request.
type Operation interface {
	// TryComplete completes the operation and returns true if the state that it waits for has been
	// reached. The purgatory never calls it concurrently, and never after it returned true. If it
	// panics, the operation has not completed, and the next event calls it again.
	TryComplete() bool
	// Expire ends the operation without success. It is called at most once, and only if TryComplete
	// never returned true.
	Expire()
}

// The bits of a waiter's state.
const (
	checking uint32 = 1 << iota // a goroutine is inside TryComplete or Expire
	recheck                     // an event occurred meanwhile: check once more
	expire                      // the timeout occurred meanwhile: expire if the check fails
	done                        // the operation has ended; final
)

// ending is the outcome of a call of check or expire.
type ending int

const (
	pending   ending = iota // still waiting, or ended by another call
	completed               // this call ended it: TryComplete returned true
	expired                 // this call ended it: it called Expire
)

// waiter ends an operation exactly once, with concurrent events, timeouts and cancellations.
//
// It has no lock, because TryComplete may take long and must not block the goroutine of the next
// event. A goroutine that finds another goroutine inside TryComplete or Expire sets a bit and
// returns; the goroutine inside checks again before it leaves. So no event is lost: either the
// compare-and-swap that clears checking sees the bit, or the bit was set after that, and then the
// goroutine that set it enters itself.
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

// enter calls inside, or leaves the reason as a bit to the goroutine that already runs inside.
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

// inside handles its own reason and then those that other goroutines left, until none remains or
// the operation has ended. Only one goroutine runs it at a time. Store(done) may overwrite bits
// that were set meanwhile: their goroutines returned pending, and this call returns the end.
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
		// this case precedes expire, because an event before the timeout takes precedence
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
