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
	value int
	at    time.Duration
}

// recorder is the fire callback of a timer, with the time of each call.
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

// TestTimerFiresInTimeAndInOrder: never early, at most a tick late, whatever the order of adding.
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
			t.Fatalf("%d fired of %d", len(fired), len(timeouts))
		}
		for i, f := range fired {
			late := f.at - timeouts[f.value]
			if late < 0 || late > time.Millisecond {
				t.Errorf("timeout %v fired after %v", timeouts[f.value], f.at)
			}
			if i > 0 && f.at < fired[i-1].at {
				t.Errorf("fired out of order: %v", fired)
			}
		}
	})
}

// TestTimerWakesForAnEarlierEntry: the goroutine sleeps for an hour already when a nearer timeout
// comes.
func TestTimerWakesForAnEarlierEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		timer.Add(&Entry[int]{Value: 1}, time.Hour)
		synctest.Wait() // asleep
		timer.Add(&Entry[int]{Value: 2}, 5*time.Millisecond)
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		if fired := r.all(); len(fired) != 1 || fired[0].value != 2 {
			t.Errorf("fired %v, want entry 2 alone", fired)
		}
	})
}

func TestTimerDoesNotFireWhatWasCancelled(t *testing.T) {
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

// TestTimerCloseFiresTheRest, those without any end too, joins (synctest fails on a goroutine
// left), and takes no more.
func TestTimerCloseFiresTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		timer.Add(&Entry[int]{Value: 1}, time.Hour)
		timer.Add(&Entry[int]{Value: 2}, math.MaxInt64)
		timer.Close()
		if fired := r.all(); len(fired) != 2 || fired[0].at != 0 {
			t.Errorf("fired %v, want both at once", fired)
		}
		if timer.Add(&Entry[int]{}, time.Second) {
			t.Error("a closed timer took an entry")
		}
		timer.Close() // twice does no harm
	})
}

// TestTimerIdlesWithoutWaking: the clock is driven on demand. A day with nothing pending has no
// wake-up at all, a day's timeout one for each level of the wheel it goes down; a tick a
// millisecond would be 86 million.
func TestTimerIdlesWithoutWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		time.Sleep(24 * time.Hour)
		if wakeups := timer.Stats().Wakeups; wakeups != 0 {
			t.Errorf("%d wake-ups with nothing pending", wakeups)
		}
		timer.Add(&Entry[int]{}, 24*time.Hour)
		time.Sleep(25 * time.Hour)
		// the add, levels below 20⁷ ms, the rest
		if wakeups := timer.Stats().Wakeups; len(r.all()) != 1 || wakeups > 1+7+1 {
			t.Errorf("%d fired, %d wake-ups", len(r.all()), wakeups)
		}
		before := timer.Stats().Wakeups
		time.Sleep(24 * time.Hour)
		if wakeups := timer.Stats().Wakeups - before; wakeups != 0 {
			t.Errorf("%d wake-ups after all has fired", wakeups)
		}
	})
}

// TestTimerRemovedTimeoutsCostNoWaking: requests that are completed long before their timeout, as
// most are, wake nobody.
func TestTimerRemovedTimeoutsCostNoWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := NewTimer(TimerOptions{}, func(int) { t.Error("fired") })
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

// TestTimerReset: a session that is renewed every 3 s does not end, and ends its timeout after the
// last renewal.
func TestTimerReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(TimerOptions{}, r.fire)
		defer timer.Close()
		var session Entry[int]
		if timer.Reset(&session, time.Second) {
			t.Error("reset of an entry that was never added")
		}
		timer.Add(&session, 10*time.Second)
		for range 100 {
			time.Sleep(3 * time.Second)
			if !timer.Reset(&session, 10*time.Second) {
				t.Fatal("the session ended")
			}
		}
		time.Sleep(9999 * time.Millisecond)
		synctest.Wait()
		if len(r.all()) != 0 {
			t.Error("ended early")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if len(r.all()) != 1 || timer.Reset(&session, time.Second) {
			t.Errorf("fired %v", r.all())
		}
		// Earlier than it was: the goroutine, asleep for the old time, must hear of it.
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
			t.Errorf("%v allocations", n)
		}
	})
}

// TestTimerOutlivesAPanic: the callback's fault is counted and logged, and the others are called.
func TestTimerOutlivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var fired []int
		timer := NewTimer(TimerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(value int) {
				if value == 1 {
					panic("out of order")
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
		if !strings.Contains(log.String(), "out of order") ||
			!strings.Contains(log.String(), "timer_test.go") {
			t.Errorf("the log does not say what and where: %s", log.String())
		}
	})
}

// TestTimerCallbackMayUseTheTimer: it runs outside the lock.
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
