package purgatory

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// expiry is what a model says of a waiter: it is stopped before its timeout, or expires at it.
type expiry struct {
	w       *waiter
	at      time.Time
	stopped bool
}

// TestRivalTimersAgainstModel starts waiters with random timeouts and stops some of them half-way:
// the others expire, once, never early and at most two ticks late, and those that were stopped do
// not.
func TestRivalTimersAgainstModel(t *testing.T) {
	for kind, maker := range map[string]func() timers{
		"wheel":     func() timers { return newWheelTimers() },
		"afterfunc": func() timers { return runtimeTimers{} },
		"heap":      func() timers { return newHeapTimers() },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { againstModel(t, maker()) })
		})
	}
}

func againstModel(t *testing.T, timers timers) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	r := &run{opts: Options{Requests: -1}, start: time.Now()}
	v := &rival{timers: timers, lists: newUnlinkingLists()}
	var all []*expiry
	for range 500 {
		timeout := time.Duration(1 + random.IntN(int(time.Second)))
		e := &expiry{at: time.Now().Add(timeout), stopped: random.IntN(3) == 0}
		q := &request{run: r, deadline: r.now() + timeout}
		e.w = &waiter{request: q, rival: v}
		all = append(all, e)
		timers.start(e.w, timeout)
		if e.stopped {
			time.AfterFunc(timeout/2, func() { timers.stop(e.w) })
		}
		time.Sleep(time.Duration(random.IntN(int(time.Millisecond))))
	}
	for len(all) > 0 {
		time.Sleep(time.Millisecond)
		synctest.Wait()
		left := all[:0]
		for _, e := range all {
			late := time.Since(e.at)
			if e.w.done.Load() && (e.stopped || late < 0) {
				t.Fatalf("expired %v after its time; stopped: %v", late, e.stopped)
			}
			// two ticks, and one until we look
			if !e.w.done.Load() && !e.stopped && late > 3*time.Millisecond {
				t.Fatalf("still waits %v after its time", late)
			}
			if !e.w.done.Load() && late <= 3*time.Millisecond {
				left = append(left, e)
			}
		}
		all = left
	}
	if r.early.Load() != 0 {
		t.Errorf("%d expired early", r.early.Load())
	}
	timers.close()
}

// TestUnlinkingListsAgainstModel: each key's chain holds the places of those that have not ended,
// and no others.
func TestUnlinkingListsAgainstModel(t *testing.T) {
	lists := newUnlinkingLists()
	waiting := randomWaits(t, lists, 5000)
	places := 0
	for i := range lists.shards {
		for k, p := range lists.shards[i].first {
			if p.prev != nil {
				t.Errorf("%v: the first has one before it", k)
			}
			for ; p != nil; p = p.next {
				places++
				if p.key != k {
					t.Fatalf("%v is in the chain of %v", p.key, k)
				}
			}
		}
	}
	if want := waiting * 3; places != want {
		t.Errorf("%d places, want %d", places, want)
	}
}

// TestPurgedListsKeepWhoWaits: a purge takes none that waits, and leaves at most as many that have
// ended as the interval says.
func TestPurgedListsKeepWhoWaits(t *testing.T) {
	lists := newPurgedLists()
	waiting := randomWaits(t, lists, 20_000)
	kept, ended := 0, map[*waiter]bool{}
	for i := range lists.shards {
		for _, watching := range lists.shards[i].with {
			for _, w := range *watching {
				if w.done.Load() {
					ended[w] = true
				} else {
					kept++
				}
			}
		}
	}
	if kept != waiting*3 || len(ended) > purgeInterval+1 {
		t.Errorf("%d places of those that wait, want %d; %d that have ended, at most %d wanted",
			kept, waiting*3, len(ended), purgeInterval+1)
	}
}

// randomWaits adds waiters, each with three keys, and ends some two thirds of them, in random
// order; it returns how many wait.
func randomWaits(t *testing.T, lists lists, count int) int {
	t.Helper()
	opts := usual()
	load := draw(opts)
	random := rand.New(rand.NewPCG(opts.Seed, 1))
	var waiting []*waiter
	for i := range count {
		w := &waiter{}
		lists.add(w, load.keys[i])
		waiting = append(waiting, w)
		for len(waiting) > 0 && random.IntN(3) < 2 && len(waiting) > i/3 {
			j := random.IntN(len(waiting))
			ended := waiting[j]
			waiting[j] = waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			ended.done.Store(true)
			lists.ended(ended)
		}
	}
	if len(waiting) == 0 || len(waiting) == count {
		t.Fatalf("%d of %d wait: nothing is shown by that", len(waiting), count)
	}
	return len(waiting)
}
