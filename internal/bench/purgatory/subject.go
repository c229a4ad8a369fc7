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

// makers are the kinds of subject there are.
var makers = map[string]func() subject{
	"purgatory": func() subject { return &broker{timer.NewPurgatory[key](timer.Options{Operation: "bench"})} },
	"wheel":     func() subject { return &rival{newWheelTimers(), newUnlinkingLists()} },
	"afterfunc": func() subject { return &rival{runtimeTimers{}, newUnlinkingLists()} },
	"heap":      func() subject { return &rival{newHeapTimers(), newUnlinkingLists()} },
	"purge":     func() subject { return &rival{newWheelTimers(), newPurgedLists()} },
	"baseline":  func() subject { return baseline{} },
}

// Kinds are the subjects there are:
//
//   - purgatory: internal/timer's, as the broker has it
//   - wheel: the rival put together from the same timers and the same way with lists; it tells what
//     the others are to be held to
//   - afterfunc: the same with a timer of the Go runtime for each request
//   - heap: the same with a binary heap
//   - purge: the same as wheel, but requests that ended stay in the lists until there are enough of
//     them for a purge
//   - baseline: nobody waits; what the load alone costs
func Kinds() []string {
	return []string{"purgatory", "wheel", "afterfunc", "heap", "purge", "baseline"}
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

// baseline makes nobody wait. A request that would expire has expired on arrival: there is nobody
// to do it later. Hence it holds less memory than any purgatory could, and tells of no lateness.
type baseline struct{}

func (baseline) wait(r *request, timeout time.Duration, _ []key) {
	if r.latency >= timeout {
		r.end(&r.run.expired)
	}
}

func (baseline) complete(r *request) { r.end(&r.run.completed) }
func (baseline) close()              {}
