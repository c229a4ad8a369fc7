package timer

import (
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// guard runs callbacks whose panic must not end the goroutine that calls them, which serves all the
// others too: the timer's, or that of a request whose append made somebody else's operation look
// again. Panics are counted and logged.
type guard struct {
	logger *slog.Logger
	panics atomic.Int64
}

// tryComplete is op.TryComplete. One that panics has not completed: the next event lets it try
// again, and in the end it expires, so that its client gets an answer.
func (g *guard) tryComplete(op Operation) (completed bool) {
	defer g.caught()
	return op.TryComplete()
}

// expire is op.Expire. One that panics has had its chance.
func (g *guard) expire(op Operation) {
	defer g.caught()
	op.Expire()
}

// caught is to be deferred around a callback.
func (g *guard) caught() {
	if fault := recover(); fault != nil {
		g.logger.Error("timer callback panicked", "panic", fault, "panics", g.panics.Add(1),
			"stack", string(debug.Stack()))
	}
}
