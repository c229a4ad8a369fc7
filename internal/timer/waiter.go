package timer

import "sync/atomic"

// Operation is a request that waits: for records, for replicas, for time.
type Operation interface {
	// TryComplete looks whether the wait is over, and if so completes the operation and returns
	// true. The purgatory never calls it twice at the same time, and never after it returned true.
	// One that panics has not completed: it is called again at the next event.
	TryComplete() bool
	// Expire completes the operation because its time is up. It is called once, and only if
	// TryComplete never returned true.
	Expire()
}

// The bits of a waiter's state.
const (
	looking uint32 = 1 << iota // somebody is inside TryComplete or Expire
	again                      // an event came meanwhile: look once more
	expire                     // time came meanwhile: expire if the look fails
	done                       // the operation has ended; final
)

// ending says how a call of look or expire came out.
type ending int

const (
	pending   ending = iota // still waiting, or ended by somebody else
	completed               // this call ended it: TryComplete returned true
	expired                 // this call ended it: it called Expire
)

// waiter gives an operation exactly one end, whoever comes: events, time and cancellation from any
// goroutine at once.
//
// There is no lock, because TryComplete may take any time and must not make the next event's
// goroutine wait. Whoever finds somebody inside leaves a bit and goes; the one inside looks again
// before it leaves. So no event is lost: its bit is either seen by the compare-and-swap that would
// clear looking, or it came after that and its owner looks itself.
type waiter struct {
	op    Operation
	guard *guard
	state atomic.Uint32
}

// ended tells whether the operation has ended; once true it stays so.
func (w *waiter) ended() bool { return w.state.Load()&done != 0 }

// look lets the operation try to complete.
func (w *waiter) look() ending { return w.enter(again) }

// expire ends the operation unless it completes at this moment.
func (w *waiter) expire() ending { return w.enter(expire) }

// enter gets inside, or leaves reason with the one who is.
func (w *waiter) enter(reason uint32) ending {
	for {
		state := w.state.Load()
		switch {
		case state&done != 0:
			return pending
		case state&looking != 0:
			if w.state.CompareAndSwap(state, state|reason) {
				return pending
			}
		default:
			if w.state.CompareAndSwap(0, looking) {
				return w.inside(reason)
			}
		}
	}
}

// inside does what it came for, then what others have left, until there is nothing, or the
// operation has ended. Only one goroutine is here at a time. Store(done) may overwrite bits that
// came meanwhile: who left them was told pending, and this call tells of the end.
func (w *waiter) inside(reason uint32) ending {
	for {
		if reason&again != 0 {
			reason &^= again
			if w.guard.tryComplete(w.op) {
				w.state.Store(done)
				return completed
			}
		}
		state := w.state.Load()
		switch {
		case state&again != 0: // before expire: what an event has completed in time has not expired
			// The bit goes before the look: an event during the look sets it anew.
			if w.state.CompareAndSwap(state, state&^again) {
				reason |= again
			}
		case (reason|state)&expire != 0:
			w.guard.expire(w.op)
			w.state.Store(done)
			return expired
		default:
			if w.state.CompareAndSwap(looking, 0) {
				return pending
			}
		}
	}
}
