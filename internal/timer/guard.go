package timer

import (
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// guard runs callbacks and recovers their panics: the calling goroutine also serves other
// operations. It is the timer's goroutine, or the goroutine of a request whose append completes
// another request's operation. Panics are counted and logged.
type guard struct {
	logger *slog.Logger
	panics atomic.Int64
}

// tryComplete calls op.TryComplete. An operation whose TryComplete panics has not completed: the
// next event calls it again, and its timeout ends it, so that its client gets an answer.
func (g *guard) tryComplete(op Operation) (completed bool) {
	defer g.recoverPanic()
	return op.TryComplete()
}

// expire calls op.Expire. The operation has ended even if Expire panics.
func (g *guard) expire(op Operation) {
	defer g.recoverPanic()
	op.Expire()
}

// recoverPanic must be deferred around a callback.
func (g *guard) recoverPanic() {
	if fault := recover(); fault != nil {
		g.logger.Error("timer callback panicked", "panic", fault, "panics", g.panics.Add(1),
			"stack", string(debug.Stack()))
	}
}
