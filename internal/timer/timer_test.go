package timer

import (
	"math"
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
		timer := NewTimer(time.Millisecond, r.fire)
		defer timer.Close()
		timeouts := []time.Duration{
			time.Hour, 10 * time.Millisecond, 1500 * time.Microsecond, 30 * time.Second, 63 * time.Millisecond, 64 * time.Millisecond,
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

// TestTimerWakesForAnEarlierEntry: the goroutine sleeps for an hour already when a nearer timeout comes.
func TestTimerWakesForAnEarlierEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(time.Millisecond, r.fire)
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
		timer := NewTimer(time.Millisecond, r.fire)
		defer timer.Close()
		entries := make([]Entry[int], 100)
		for i := range entries {
			entries[i].Value = i
			timer.Add(&entries[i], time.Duration(i)*time.Second)
		}
		for i := range entries {
			if i%2 == 1 && !timer.Cancel(&entries[i]) {
				t.Errorf("entry %d was not pending", i)
			}
		}
		if timer.Len() != 50 {
			t.Errorf("%d pending, want 50", timer.Len())
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

// TestTimerCloseFiresTheRest, those without any end too, joins (synctest fails on a goroutine left), and takes no more.
func TestTimerCloseFiresTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now()}
		timer := NewTimer(time.Millisecond, r.fire)
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
