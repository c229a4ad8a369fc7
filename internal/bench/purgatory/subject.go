package purgatory

import (
	"time"

	"heartwood.dev/heartwood/internal/timer"
)

// subject is what a run measures.
type subject interface {
	// wait adds r to the subject, where it waits for a call of complete for at most timeout.
	wait(r *request, timeout time.Duration, keys []key)
	// complete completes r unless it has ended. It is called after wait(r) has returned.
	complete(r *request)
	// close stops all goroutines. It is called after all requests have ended.
	close()
}

// constructors contains a constructor for each kind of subject.
var constructors = map[string]func() subject{
	"purgatory": func() subject {
		return &timerPurgatory{timer.NewPurgatory[key](timer.Options{Operation: "bench"})}
	},
	"baseline": func() subject { return baseline{} },
}

// Kinds returns the kinds of subject:
//
//   - purgatory: the purgatory of internal/timer, as brokers use it
//   - baseline: no waiting at all, which shows the cost of the load
func Kinds() []string { return []string{"purgatory", "baseline"} }

// removedKinds are the names of alternative timers and watch lists that were measured and removed.
// docs/internals/bench/purgatory.md contains their figures, and names the commit that contains
// their code.
var removedKinds = []string{"wheel", "afterfunc", "heap", "purge"}

// timerPurgatory is the purgatory of internal/timer.
type timerPurgatory struct{ purgatory *timer.Purgatory[key] }

func (p *timerPurgatory) wait(r *request, timeout time.Duration, keys []key) {
	r.waiting = p.purgatory.Wait(r, timeout, keys...)
}

func (p *timerPurgatory) complete(r *request) {
	r.ready.Store(true)
	r.waiting.Check()
}

func (p *timerPurgatory) close() { p.purgatory.Close() }

// baseline stores no request. A request that would expire is counted as expired on arrival. So the
// baseline needs less memory than any purgatory, and measures no lateness.
type baseline struct{}

func (baseline) wait(r *request, timeout time.Duration, _ []key) {
	if r.latency >= timeout {
		r.end(&r.run.expired)
	}
}

func (baseline) complete(r *request) { r.end(&r.run.completed) }
func (baseline) close()              {}
