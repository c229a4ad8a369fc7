package timer

import (
	"bytes"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type firing struct {
	value   int
	elapsed time.Duration
}

// recorder provides the fire callback of a timer. It keeps the value and the time of each call.
type recorder struct {
	start time.Time
	mu    sync.Mutex
	fired []firing
}

func (r *recorder) fire(value int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fired = append(r.fired, firing{value, time.Since(r.start)})
}

func (r *recorder) all() []firing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]firing(nil), r.fired...)
}

// TestTimerFiresInTimeAndInOrder checks that entries fire in the order of their due ticks, never
// early, and at most one tick late.
func TestTimerFiresInTimeAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		timeouts := []time.Duration{
			time.Hour, 10 * time.Millisecond, 1500 * time.Microsecond, 30 * time.Second,
			63 * time.Millisecond, 64 * time.Millisecond,
			time.Minute, 0, 24 * time.Hour,
		}
		for i, timeout := range timeouts {
			timer.Add(&Entry[int]{Value: i}, timeout)
		}
		time.Sleep(25 * time.Hour)
		fired := r.all()
		if len(fired) != len(timeouts) {
			t.Fatalf("%d of %d entries fired", len(fired), len(timeouts))
		}
		for i, f := range fired {
			late := f.elapsed - timeouts[f.value]
			if late < 0 || late > time.Millisecond {
				t.Errorf("timeout %v fired after %v", timeouts[f.value], f.elapsed)
			}
			if i > 0 && f.elapsed < fired[i-1].elapsed {
				t.Errorf("fired out of order: %v", fired)
			}
		}
	})
}

// TestTimerWakesForAnEarlierEntry checks that the goroutine, which sleeps for an hour, wakes for an
// added entry that is due in 5 ms.
func TestTimerWakesForAnEarlierEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		timer.Add(&Entry[int]{Value: 1}, time.Hour)
		synctest.Wait() // the goroutine sleeps now
		timer.Add(&Entry[int]{Value: 2}, 5*time.Millisecond)
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if fired := r.all(); len(fired) != 1 || fired[0].value != 2 {
			t.Errorf("fired %v, want only entry 2", fired)
		}
	})
}

func TestTimerDoesNotFireRemovedEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		entries := make([]Entry[int], 100)
		for i := range entries {
			entries[i].Value = i
			timer.Add(&entries[i], time.Duration(i)*time.Second)
		}
		for i := range entries {
			if i%2 == 1 && !timer.Remove(&entries[i]) {
				t.Errorf("entry %d was not pending", i)
			}
		}
		if timer.Stats().Pending != 50 {
			t.Errorf("%d pending, want 50", timer.Stats().Pending)
		}
		time.Sleep(200 * time.Second)
		for _, f := range r.all() {
			if f.value%2 == 1 {
				t.Errorf("entry %d fired", f.value)
			}
		}
		if len(r.all()) != 50 {
			t.Errorf("%d fired, want 50", len(r.all()))
		}
	})
}

// TestTimerCloseFiresPendingEntries checks that Close fires all pending entries, even one with the
// largest timeout, and ends the goroutine: synctest fails if a goroutine remains. A closed timer
// must accept no entries.
func TestTimerCloseFiresPendingEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		timer.Add(&Entry[int]{Value: 1}, time.Hour)
		timer.Add(&Entry[int]{Value: 2}, math.MaxInt64)
		timer.Close()
		if fired := r.all(); len(fired) != 2 || fired[0].elapsed != 0 {
			t.Errorf("fired %v, want both at once", fired)
		}
		if timer.Add(&Entry[int]{}, time.Second) {
			t.Error("a closed timer accepted an entry")
		}
		timer.Close() // a second call has no effect
	})
}

// TestIdleTimerDoesNotWake checks that the goroutine does not wake while no entry is pending, and
// wakes at most once per level of the wheel for a timeout of a day. If it woke for each tick, it
// would wake 86 million times.
func TestIdleTimerDoesNotWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		time.Sleep(24 * time.Hour)
		if wakeups := timer.Stats().Wakeups; wakeups != 0 {
			t.Errorf("%d wake-ups while nothing was pending", wakeups)
		}
		timer.Add(&Entry[int]{}, 24*time.Hour)
		time.Sleep(25 * time.Hour)
		// There is one wake-up for Add, at most 7 to move the entry down (a day is less than 20⁷ ms), and
		// one to fire it.
		if wakeups := timer.Stats().Wakeups; len(r.all()) != 1 || wakeups > 1+7+1 {
			t.Errorf("%d fired, %d wake-ups", len(r.all()), wakeups)
		}
		before := timer.Stats().Wakeups
		time.Sleep(24 * time.Hour)
		if wakeups := timer.Stats().Wakeups - before; wakeups != 0 {
			t.Errorf("%d wake-ups after all entries had fired", wakeups)
		}
	})
}

// TestRemovedEntriesDoNotWakeTheTimer checks that the goroutine does not wake for each of many
// entries that are removed long before their timeout. Most requests end in this way.
func TestRemovedEntriesDoNotWakeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := NewTimer(TimerOptions{}, func(int) { t.Error("a removed entry fired") })
		defer timer.Close()
		var e Entry[int]
		for range 10_000 {
			timer.Add(&e, 30*time.Second)
			time.Sleep(time.Millisecond)
			timer.Remove(&e)
		}
		if wakeups := timer.Stats().Wakeups; wakeups > 10 {
			t.Errorf("%d wake-ups for 10,000 requests in 10 s", wakeups)
		}
	})
}

// TestTimerReset renews a session with a timeout of 10 s every 3 s. The session must expire 10 s
// after the last renewal, and not earlier.
func TestTimerReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		var session Entry[int]
		if timer.Reset(&session, time.Second) {
			t.Error("Reset accepted an entry that was not added")
		}
		timer.Add(&session, 10*time.Second)
		for range 100 {
			time.Sleep(3 * time.Second)
			if !timer.Reset(&session, 10*time.Second) {
				t.Fatal("the session expired")
			}
		}
		time.Sleep(9999 * time.Millisecond)
		synctest.Wait()
		if len(r.all()) != 0 {
			t.Error("the session expired early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if len(r.all()) != 1 || timer.Reset(&session, time.Second) {
			t.Errorf("fired %v", r.all())
		}
		// Reset to an earlier time must wake the goroutine, which sleeps until the old time.
		timer.Add(&session, time.Hour)
		synctest.Wait()
		timer.Reset(&session, 5*time.Millisecond)
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if len(r.all()) != 2 {
			t.Error("the earlier timeout did not fire")
		}
		if n := testing.AllocsPerRun(100,
			func() {
				timer.Add(&session, time.Hour)
				timer.Reset(&session,
					time.Minute)
				timer.Remove(&session)
			}); n != 0 {
			t.Errorf("%v allocations, want none", n)
		}
	})
}

// TestTimerRecoversPanics checks that a callback's panic is counted and logged, and that later
// callbacks are called.
func TestTimerRecoversPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var fired []int
		timer := NewTimer(TimerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(value int) {
				if value == 1 {
					panic("broken callback")
				}
				fired = append(fired, value)
			})
		for value := range 3 {
			timer.Add(&Entry[int]{Value: value}, time.Duration(value)*time.Second)
		}
		time.Sleep(5 * time.Second)
		timer.Close()
		if !slices.Equal(fired, []int{0, 2}) || timer.Stats().Panics != 1 {
			t.Errorf("fired %v, %d panics", fired, timer.Stats().Panics)
		}
		if !strings.Contains(log.String(), "broken callback") ||
			!strings.Contains(log.String(), "timer_test.go") {
			t.Errorf("the log has no message or no stack: %s", log.String())
		}
	})
}

// TestTimerCallbackMayUseTheTimer checks that a callback, which runs without the lock, can call the
// timer's methods.
func TestTimerCallbackMayUseTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timer *Timer[*Entry[int]]
		count := 0
		var e Entry[*Entry[int]]
		timer = NewTimer(TimerOptions{}, func(*Entry[int]) {
			if count++; count < 5 {
				timer.Add(&e, time.Second)
			}
			timer.Stats()
		})
		timer.Add(&e, time.Second)
		time.Sleep(10 * time.Second)
		timer.Close()
		if count != 5 {
			t.Errorf("fired %d times, want 5", count)
		}
	})
}
