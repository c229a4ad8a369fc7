package timer

import (
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// guard calls callbacks, and recovers, counts and logs their panics. A panic must not end the
// calling goroutine, because it also serves other operations: it is the timer's goroutine, or it
// handles a request whose append completes another request's operation.
type guard struct {
	logger *slog.Logger
	panics atomic.Int64
}

// tryComplete calls op.TryComplete. If TryComplete panics, the operation has not completed: the
// next event calls TryComplete again, and the timeout expires the operation, so its client receives
// a response.
func (g *guard) tryComplete(op Operation) (completed bool) {
	defer g.recoverPanic()
	return op.TryComplete()
}

// expire calls op.Expire. The operation has ended, even if Expire panics.
func (g *guard) expire(op Operation) {
	defer g.recoverPanic()
	op.Expire()
}

// recoverPanic recovers, counts and logs a panic of the callback. It must be deferred around the
// call.
func (g *guard) recoverPanic() {
	if fault := recover(); fault != nil {
		g.logger.Error("timer callback panicked", "panic", fault, "panics", g.panics.Add(1),
			"stack", string(debug.Stack()))
	}
}
