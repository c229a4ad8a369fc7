package purgatory

import (
	"time"

	"heartwood.dev/heartwood/internal/timer"
)

// subject is what is measured.
type subject interface {
	// wait lets r wait for complete, for at most timeout.
	wait(r *request, timeout time.Duration, keys []key)
	// complete ends r as completed unless it has ended. wait(r) has returned.
	complete(r *request)
	// close returns when no goroutine is left. All requests have ended.
	close()
}

// The kinds of subject.
const (
	kindPurgatory = "purgatory" // internal/timer's, as the broker has it
	kindBaseline  = "baseline"  // the load alone
)

// Kinds are the subjects there are.
func Kinds() []string { return []string{kindPurgatory, kindBaseline} }

func newSubject(kind string) subject {
	if kind == kindBaseline {
		return baseline{}
	}
	return &broker{timer.NewPurgatory[key](timer.Options{Operation: "bench"})}
}

// broker is the broker's own purgatory.
type broker struct{ purgatory *timer.Purgatory[key] }

func (b *broker) wait(r *request, timeout time.Duration, keys []key) {
	r.waiting = b.purgatory.Wait(r, timeout, keys...)
}

func (b *broker) complete(r *request) {
	r.ready.Store(true)
	r.waiting.Check()
}

func (b *broker) close() { b.purgatory.Close() }

// baseline makes nobody wait. A request that would expire has expired on arrival: there is nobody to do it later. Hence it holds
// less memory than any purgatory could, and tells of no lateness.
type baseline struct{}

func (baseline) wait(r *request, timeout time.Duration, _ []key) {
	if r.latency >= timeout {
		r.end(&r.run.expired)
	}
}

func (baseline) complete(r *request) { r.end(&r.run.completed) }
func (baseline) close()              {}
