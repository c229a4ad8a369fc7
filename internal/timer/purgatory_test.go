package timer

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// request is an operation that is complete once ready is set. It checks the purgatory's promises on
// every call.
type request struct {
	t       testing.TB
	ready   atomic.Bool
	inside  atomic.Bool
	looks   atomic.Int64
	ends    atomic.Int64
	expired atomic.Bool
	at      time.Time
	onLook  func() // runs inside each look
}

func (r *request) TryComplete() bool {
	r.enter()
	defer r.inside.Store(false)
	r.looks.Add(1)
	ready := r.ready.Load()
	if r.onLook != nil {
		r.onLook()
	}
	if ready {
		r.end()
	}
	return ready
}

func (r *request) Expire() {
	r.enter()
	defer r.inside.Store(false)
	r.expired.Store(true)
	r.end()
}

func (r *request) enter() {
	if !r.inside.CompareAndSwap(false, true) {
		r.t.Error("two calls at the same time")
	}
	if r.ends.Load() != 0 {
		r.t.Error("called after its end")
	}
}

func (r *request) end() {
	r.at = time.Now()
	if r.ends.Add(1) != 1 {
		r.t.Error("ended twice")
	}
}

func (r *request) ended() bool { return r.ends.Load() == 1 }

// inBubble runs a test with a purgatory on synctest's clock.
func inBubble(t *testing.T, test func(t *testing.T, p *Purgatory[string])) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{Operation: "test"})
		defer p.Close()
		test(t, p)
	})
}

// empty fails unless the purgatory has forgotten everything.
func empty(t *testing.T, p *Purgatory[string]) {
	t.Helper()
	now := p.figures()
	if timers := p.timer.Stats().Pending; now.pending != 0 || now.watched != 0 || timers != 0 {
		t.Errorf("%d pending, %d watched, %d timeouts; want none", now.pending, now.watched, timers)
	}
	if keys := len(p.lists.lists); keys != 0 {
		t.Errorf("%d keys are kept", keys)
	}
}

func TestWaitCompletesAtOnceWithoutWatching(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		r.ready.Store(true)
		p.Wait(r, time.Hour, "a")
		if !r.ended() || r.expired.Load() || r.looks.Load() != 1 {
			t.Error("not completed by the first look")
		}
		empty(t, p)
	})
}

func TestNotifyCompletesWhatIsReadyAndOnlyOnItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, time.Hour, "a", "b")
		if p.Notify("a") != 0 || r.ended() {
			t.Error("completed although not ready")
		}
		r.ready.Store(true)
		looks := r.looks.Load()
		if p.Notify("c") != 0 || r.looks.Load() != looks {
			t.Error("looked at for a key it does not watch")
		}
		if p.Notify("b") != 1 || !r.ended() || r.expired.Load() {
			t.Error("not completed by its key")
		}
		if p.Notify("a") != 0 {
			t.Error("completed twice")
		}
		empty(t, p)
	})
}

func TestTimeExpiresWhatNothingCompletes(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		start := time.Now()
		r := &request{t: t}
		p.Wait(r, 30*time.Second, "a", "b", "c")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if took := r.at.Sub(start); !r.expired.Load() || took < 30*time.Second ||
			took > 30*time.Second+time.Millisecond {
			t.Errorf("expired %v after %v", r.expired.Load(), took)
		}
		empty(t, p)
	})
}

func TestZeroTimeoutExpiresAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, 0, "a")
		if !r.expired.Load() {
			t.Error("still waits")
		}
		empty(t, p)
	})
}

// TestEventBetweenLookAndWatchIsNotLost: the event comes after the first look said no and before
// any key is watched, so its Notify finds nobody. Without the second look the operation would wait
// for its timeout.
func TestEventBetweenLookAndWatchIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		r.onLook = func() {
			r.onLook = nil
			r.ready.Store(true) // after ready was read
			p.Notify("a")
		}
		p.Wait(r, time.Hour, "a")
		if !r.ended() || r.expired.Load() {
			t.Error("the event was lost")
		}
		empty(t, p)
	})
}

// TestEventDuringALookIsNotLost: the same for an event while another goroutine looks: it must not
// go away with a no.
func TestEventDuringALookIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, time.Hour, "a")
		r.onLook = func() {
			r.onLook = nil
			r.ready.Store(true)
			if p.Notify("a") != 0 {
				t.Error("completed inside a look")
			}
		}
		if p.Notify("a") != 1 || !r.ended() {
			t.Error("the event was lost")
		}
		empty(t, p)
	})
}

// TestEndWhileWatching: an operation has more keys than are watched under one hold of the lock, and
// ends at any moment of its Wait, by its first key. What is added after the end must not stay.
func TestEndWhileWatching(t *testing.T) {
	p := NewPurgatory[string](Options{})
	defer p.Close()
	keys := make([]string, 4*keysMax)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	for range 100 {
		r := &request{t: t}
		var group sync.WaitGroup
		group.Go(func() { p.Wait(r, time.Hour, keys...) })
		group.Go(func() {
			for p.figures().watched == 0 && !r.ended() {
				runtime.Gosched()
			}
			r.ready.Store(true)
			p.Notify(keys[0])
		})
		group.Wait()
		if !r.ended() || r.expired.Load() {
			t.Fatal("the event did not end it")
		}
		empty(t, p)
	}
}

// TestTimeoutDuringALook ends the operation once, with what the look found.
func TestTimeoutDuringALook(t *testing.T) {
	for _, ready := range []bool{false, true} {
		inBubble(t, func(t *testing.T, p *Purgatory[string]) {
			r := &request{t: t}
			p.Wait(r, time.Second, "a")
			r.ready.Store(ready)
			r.onLook = func() { time.Sleep(2 * time.Second) }
			p.Notify("a")
			if !r.ended() || r.expired.Load() == ready {
				t.Errorf("ready %v: ended %v, expired %v", ready, r.ended(), r.expired.Load())
			}
			empty(t, p)
		})
	}
}

func TestCancelExpiresNow(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		waiting := p.Wait(r, time.Hour, "a", "b")
		waiting.Cancel()
		if !r.expired.Load() {
			t.Error("still waits")
		}
		waiting.Cancel()
		Waiting[string]{}.Cancel()
		empty(t, p)
	})
}

// TestManyKeysOneEventLeavesNothing: the memory leak of Kafka's first purgatory. An operation on a
// busy and on quiet keys must leave the quiet keys' lists too, though no event ever comes there.
func TestManyKeysOneEventLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		for range 1000 {
			r := &request{t: t}
			p.Wait(r, time.Hour, "busy", "quiet", "quieter", "busy")
			r.ready.Store(true)
			p.Notify("busy")
			if !r.ended() {
				t.Fatal("not completed")
			}
		}
		empty(t, p)
		if purged := p.figures().purged; purged != 4000 {
			t.Errorf("%d places given up, want 4000", purged)
		}
	})
}

func TestCloseExpiresWhatWaitsAndWhatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{})
		before, after := &request{t: t}, &request{t: t}
		p.Wait(before, time.Hour, "a")
		p.Close()
		p.Wait(after, time.Hour, "a")
		if !before.expired.Load() || !after.expired.Load() {
			t.Error("still waits after close")
		}
		empty(t, p)
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		p := NewPurgatory[string](Options{Operation: "fetch", Registry: registry})
		defer p.Close()
		// A second purgatory in the same registry, as in a broker.
		other := NewPurgatory[string](Options{Operation: "produce", Registry: registry})
		defer other.Close()
		done, late, waits := &request{t: t}, &request{t: t}, &request{t: t}
		p.Wait(done, time.Hour, "a", "b")
		p.Wait(late, time.Second, "c")
		p.Wait(waits, time.Hour, "d", "e")
		done.ready.Store(true)
		p.Notify("b")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for name, want := range map[string]float64{
			"heartwood_timer_pending": 1, "heartwood_purgatory_pending": 1,
			"heartwood_purgatory_watched":         2,
			"heartwood_purgatory_completed_total": 1, "heartwood_purgatory_expired_total": 1,
			"heartwood_purgatory_purges_total": 3,
		} {
			if got := value(t, registry, name, "fetch"); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
			if got := value(t, registry, name, "produce"); got != 0 {
				t.Errorf("%s of the other purgatory is %v", name, got)
			}
		}
		if faults, err := testutil.GatherAndLint(registry); err != nil || len(faults) > 0 {
			t.Errorf("lint: %v, %v", faults, err)
		}
	})
}

func value(t *testing.T, registry *prometheus.Registry, name, operation string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == name && metric.GetLabel()[0].GetValue() == operation {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s{operation=%q}", name, operation)
	return 0
}

// TestResetMovesTheDeadline of an operation that keeps watching: a join whose members still come.
func TestResetMovesTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		start := time.Now()
		r := &request{t: t}
		waiting := p.Wait(r, 3*time.Second, "a", "b")
		for range 5 {
			time.Sleep(2 * time.Second)
			if !waiting.Reset(3 * time.Second) {
				t.Fatal("it had ended")
			}
		}
		if watched := p.figures().watched; watched != 2 {
			t.Errorf("%d places, want 2", watched)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if took := r.at.Sub(start); !r.expired.Load() || took < 13*time.Second ||
			took > 13*time.Second+2*time.Millisecond {
			t.Errorf("expired %v after %v", r.expired.Load(), took)
		}
		if waiting.Reset(time.Second) || (Waiting[string]{}).Reset(time.Second) {
			t.Error("what has ended got another deadline")
		}
		empty(t, p)
	})
}

// TestResetDoesNotRevive: an operation that an event ended gets no deadline any more, which would
// keep it in memory.
func TestResetDoesNotRevive(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		waiting := p.Wait(r, time.Second, "a")
		r.ready.Store(true)
		p.Notify("a")
		if waiting.Reset(time.Hour) {
			t.Error("it was revived")
		}
		empty(t, p)
	})
}

func TestCheckLooksAtOneOperationAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		one, other := &request{t: t}, &request{t: t}
		waiting := p.Wait(one, time.Hour, "a")
		p.Wait(other, time.Hour, "a")
		looks := other.looks.Load()
		if waiting.Check() || (Waiting[string]{}).Check() {
			t.Error("completed although not ready")
		}
		one.ready.Store(true)
		if !waiting.Check() || waiting.Check() || other.looks.Load() != looks {
			t.Error("not completed once, or another was looked at")
		}
	})
}

// TestPanicsOfOperations: a look that panics is a no, and the operation still ends by its time; an
// Expire that panics is an end. Whoever notified is not harmed, nor is the timer's goroutine.
func TestPanicsOfOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{Logger: slog.New(slog.DiscardHandler)})
		defer p.Close()
		looks, ends := &request{t: t}, &request{t: t}
		p.Wait(looks, time.Second, "a")
		looks.onLook = func() { panic("look") }
		p.Wait(panicking{ends}, time.Second, "a")
		if p.Notify("a") != 0 {
			t.Error("completed")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !looks.expired.Load() {
			t.Error("the operation whose look panics did not expire")
		}
		last := &request{t: t}
		p.Wait(last, time.Second, "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !last.expired.Load() {
			t.Error("the goroutine is dead")
		}
		if panics := p.timer.Stats().Panics; panics != 2 {
			t.Errorf("%d panics, want 2", panics)
		}
		empty(t, p)
	})
}

// panicking never completes, and panics when it expires.
type panicking struct{ *request }

func (p panicking) TryComplete() bool { return false }
func (p panicking) Expire()           { panic("expire") }

// TestListsAreUsedAgain: keys come and go, and their lists are not made anew each time, nor kept
// without end.
func TestListsAreUsedAgain(t *testing.T) {
	p := NewPurgatory[string](Options{})
	defer p.Close()
	var all []Waiting[string]
	for i := range 10_000 {
		all = append(all, p.Wait(&request{t: t}, time.Hour, fmt.Sprint("key", i)))
	}
	for _, waiting := range all {
		waiting.Cancel()
	}
	empty(t, p)
	length := 0
	for l := p.lists.spare; l != nil; l = l.spare {
		length++
		if l.first != nil || l.key != "" {
			t.Fatalf("a spare list holds %q", l.key)
		}
	}
	if length != p.lists.spares || length != sparesMax {
		t.Fatalf("%d spare lists, counted %d, want %d", length, p.lists.spares, sparesMax)
	}
}
