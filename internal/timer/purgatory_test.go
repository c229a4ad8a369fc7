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

// request is an operation that completes once ready is set. It checks what the purgatory guarantees
// to an operation: no concurrent calls, and no call after the end.
type request struct {
	t       testing.TB
	ready   atomic.Bool
	inside  atomic.Bool
	checks  atomic.Int64
	ends    atomic.Int64
	expired atomic.Bool
	moment  time.Time
	onCheck func() // called inside each TryComplete
}

func (r *request) TryComplete() bool {
	r.enter()
	defer r.inside.Store(false)
	r.checks.Add(1)
	ready := r.ready.Load()
	if r.onCheck != nil {
		r.onCheck()
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
		r.t.Error("concurrent calls of an operation")
	}
	if r.ends.Load() != 0 {
		r.t.Error("an operation was called after its end")
	}
}

func (r *request) end() {
	r.moment = time.Now()
	if r.ends.Add(1) != 1 {
		r.t.Error("an operation ended twice")
	}
}

func (r *request) ended() bool { return r.ends.Load() == 1 }

// inBubble runs a test with a purgatory on the fake clock of package synctest.
func inBubble(t *testing.T, test func(t *testing.T, p *Purgatory[string])) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{Operation: "test"})
		defer p.Close()
		test(t, p)
	})
}

// wantEmpty checks that no operation, watch list entry or timeout is left in the purgatory.
func wantEmpty(t *testing.T, p *Purgatory[string]) {
	t.Helper()
	now := p.figures()
	if timers := p.timer.Stats().Pending; now.pending != 0 || now.watched != 0 || timers != 0 {
		t.Errorf("%d pending, %d watched, %d timeouts; want none", now.pending, now.watched, timers)
	}
	if keys := len(p.lists.lists); keys != 0 {
		t.Errorf("%d keys have a list, want none", keys)
	}
}

func TestWaitCompletesReadyOperationWithoutWatching(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		r.ready.Store(true)
		p.Wait(r, time.Hour, "a")
		if !r.ended() || r.expired.Load() || r.checks.Load() != 1 {
			t.Error("the first check did not complete the operation")
		}
		wantEmpty(t, p)
	})
}

func TestNotifyCompletesReadyOperationsOfItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, time.Hour, "a", "b")
		if p.Notify("a") != 0 || r.ended() {
			t.Error("an operation completed although it was not ready")
		}
		r.ready.Store(true)
		checks := r.checks.Load()
		if p.Notify("c") != 0 || r.checks.Load() != checks {
			t.Error("an operation was checked for a key that it does not watch")
		}
		if p.Notify("b") != 1 || !r.ended() || r.expired.Load() {
			t.Error("Notify of its key did not complete the operation")
		}
		if p.Notify("a") != 0 {
			t.Error("an operation completed twice")
		}
		wantEmpty(t, p)
	})
}

func TestTimeoutExpiresOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		start := time.Now()
		r := &request{t: t}
		p.Wait(r, 30*time.Second, "a", "b", "c")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if took := r.moment.Sub(start); !r.expired.Load() || took < 30*time.Second ||
			took > 30*time.Second+time.Millisecond {
			t.Errorf("expired %v after %v", r.expired.Load(), took)
		}
		wantEmpty(t, p)
	})
}

func TestZeroTimeoutExpiresAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, 0, "a")
		if !r.expired.Load() {
			t.Error("the operation still waits")
		}
		wantEmpty(t, p)
	})
}

// TestEventBetweenCheckAndWatchIsNotLost checks that an event is not lost if it occurs after the
// first check of Wait has read the state, and before the operation watches its key. Notify then
// finds no operation, and the second check of Wait completes the operation.
func TestEventBetweenCheckAndWatchIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		r.onCheck = func() {
			r.onCheck = nil
			r.ready.Store(true) // TryComplete has already read ready
			p.Notify("a")
		}
		p.Wait(r, time.Hour, "a")
		if !r.ended() || r.expired.Load() {
			t.Error("the event was lost")
		}
		wantEmpty(t, p)
	})
}

// TestEventDuringCheckIsNotLost checks that an operation is checked again if an event occurs while
// the operation is being checked.
func TestEventDuringCheckIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		p.Wait(r, time.Hour, "a")
		r.onCheck = func() {
			r.onCheck = nil
			r.ready.Store(true)
			if p.Notify("a") != 0 {
				t.Error("an operation completed inside its TryComplete")
			}
		}
		if p.Notify("a") != 1 || !r.ended() {
			t.Error("the event was lost")
		}
		wantEmpty(t, p)
	})
}

// TestOperationEndsWhileItsKeysAreAdded checks that no watch list entry remains if an operation
// ends while Wait adds its keys. The operation has more than keysPerLock keys, so Wait releases the
// lock in between, and another goroutine completes the operation by its first key.
func TestOperationEndsWhileItsKeysAreAdded(t *testing.T) {
	p := NewPurgatory[string](Options{})
	defer p.Close()
	keys := make([]string, 4*keysPerLock)
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
			t.Fatal("the event did not complete the operation")
		}
		wantEmpty(t, p)
	}
}

// TestTimeoutDuringCheck checks an operation whose timeout passes while it is being checked. It
// completes if the check succeeds, and expires otherwise.
func TestTimeoutDuringCheck(t *testing.T) {
	for _, ready := range []bool{false, true} {
		inBubble(t, func(t *testing.T, p *Purgatory[string]) {
			r := &request{t: t}
			p.Wait(r, time.Second, "a")
			r.ready.Store(ready)
			r.onCheck = func() { time.Sleep(2 * time.Second) }
			p.Notify("a")
			if !r.ended() || r.expired.Load() == ready {
				t.Errorf("ready %v: ended %v, expired %v", ready, r.ended(), r.expired.Load())
			}
			wantEmpty(t, p)
		})
	}
}

func TestCancelExpiresAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		waiting := p.Wait(r, time.Hour, "a", "b")
		waiting.Cancel()
		if !r.expired.Load() {
			t.Error("the operation still waits")
		}
		waiting.Cancel()
		Waiting[string]{}.Cancel()
		wantEmpty(t, p)
	})
}

// TestCompletedOperationLeavesAllLists checks that an operation that completes by one of its keys
// also leaves the lists of its other keys, which have no events. Kafka's first purgatory leaked
// memory in this case.
func TestCompletedOperationLeavesAllLists(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		for range 1000 {
			r := &request{t: t}
			p.Wait(r, time.Hour, "busy", "quiet", "quieter", "busy")
			r.ready.Store(true)
			p.Notify("busy")
			if !r.ended() {
				t.Fatal("the operation was not completed")
			}
		}
		wantEmpty(t, p)
		if purged := p.figures().purged; purged != 4000 {
			t.Errorf("%d list entries were removed, want 4000", purged)
		}
	})
}

func TestCloseExpiresWaitingAndLaterOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{})
		before, after := &request{t: t}, &request{t: t}
		p.Wait(before, time.Hour, "a")
		p.Close()
		p.Wait(after, time.Hour, "a")
		if !before.expired.Load() || !after.expired.Load() {
			t.Error("an operation still waits after Close")
		}
		wantEmpty(t, p)
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		p := NewPurgatory[string](Options{Operation: "fetch", Registry: registry})
		defer p.Close()
		// A broker registers several purgatories in one registry.
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

// TestResetChangesTheTimeout checks that Reset changes an operation's timeout, but not the keys
// that it watches.
func TestResetChangesTheTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		start := time.Now()
		r := &request{t: t}
		waiting := p.Wait(r, 3*time.Second, "a", "b")
		for range 5 {
			time.Sleep(2 * time.Second)
			if !waiting.Reset(3 * time.Second) {
				t.Fatal("the operation had ended")
			}
		}
		if watched := p.figures().watched; watched != 2 {
			t.Errorf("%d list entries, want 2", watched)
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if took := r.moment.Sub(start); !r.expired.Load() || took < 13*time.Second ||
			took > 13*time.Second+2*time.Millisecond {
			t.Errorf("expired %v after %v", r.expired.Load(), took)
		}
		if waiting.Reset(time.Second) || (Waiting[string]{}).Reset(time.Second) {
			t.Error("Reset changed the timeout of an operation that has ended")
		}
		wantEmpty(t, p)
	})
}

// TestResetAfterCompletionHasNoEffect checks that Reset adds no timeout to a completed operation.
// The timeout would keep the operation in memory.
func TestResetAfterCompletionHasNoEffect(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		r := &request{t: t}
		waiting := p.Wait(r, time.Second, "a")
		r.ready.Store(true)
		p.Notify("a")
		if waiting.Reset(time.Hour) {
			t.Error("Reset reported that the operation waits")
		}
		wantEmpty(t, p)
	})
}

func TestCheckConcernsOneOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Purgatory[string]) {
		one, other := &request{t: t}, &request{t: t}
		waiting := p.Wait(one, time.Hour, "a")
		p.Wait(other, time.Hour, "a")
		checks := other.checks.Load()
		if waiting.Check() || (Waiting[string]{}).Check() {
			t.Error("an operation completed although it was not ready")
		}
		one.ready.Store(true)
		if !waiting.Check() || waiting.Check() || other.checks.Load() != checks {
			t.Error("the operation was not completed once, or another one was checked")
		}
	})
}

// TestPanicsOfOperationsAreRecovered checks that an operation whose TryComplete panics expires
// later, and that an operation whose Expire panics has ended. The panics must end neither the
// goroutine that calls Notify nor the timer's goroutine.
func TestPanicsOfOperationsAreRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPurgatory[string](Options{Logger: slog.New(slog.DiscardHandler)})
		defer p.Close()
		checkPanics, expirePanics := &request{t: t}, &request{t: t}
		p.Wait(checkPanics, time.Second, "a")
		checkPanics.onCheck = func() { panic("check") }
		p.Wait(panicking{expirePanics}, time.Second, "a")
		if p.Notify("a") != 0 {
			t.Error("an operation completed")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !checkPanics.expired.Load() {
			t.Error("the operation whose check panics did not expire")
		}
		last := &request{t: t}
		p.Wait(last, time.Second, "a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !last.expired.Load() {
			t.Error("the timer's goroutine has stopped")
		}
		if panics := p.timer.Stats().Panics; panics != 2 {
			t.Errorf("%d panics, want 2", panics)
		}
		wantEmpty(t, p)
	})
}

// panicking never completes, and panics when it expires.
type panicking struct{ *request }

func (p panicking) TryComplete() bool { return false }
func (p panicking) Expire()           { panic("expire") }

// TestListsAreReused checks that the lists of keys without watchers are kept for reuse, but at most
// spareListsMax of them.
func TestListsAreReused(t *testing.T) {
	p := NewPurgatory[string](Options{})
	defer p.Close()
	var all []Waiting[string]
	for i := range 10_000 {
		all = append(all, p.Wait(&request{t: t}, time.Hour, fmt.Sprint("key", i)))
	}
	for _, waiting := range all {
		waiting.Cancel()
	}
	wantEmpty(t, p)
	length := 0
	for l := p.lists.spare; l != nil; l = l.spare {
		length++
		if l.first != nil || l.key != "" {
			t.Fatalf("an unused list has the key %q", l.key)
		}
	}
	if length != p.lists.spares || length != spareListsMax {
		t.Fatalf("%d unused lists, counted %d, want %d", length, p.lists.spares, spareListsMax)
	}
}
