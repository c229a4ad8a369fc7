package timer

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// TestConcurrentOperations waits, notifies, cancels, checks and resets operations on a few keys in
// several goroutines. The type request checks that each operation ends exactly once and is never
// called concurrently. At the end all operations must have ended, and the purgatory must be empty.
// Run this test with -race.
func TestConcurrentOperations(t *testing.T) {
	p := NewPurgatory[string](Options{Operation: "test"})
	const goroutines, rounds, keys = 8, 2000, 5
	seed := seed.New(t)
	key := func(random *rand.Rand) string { return fmt.Sprint(random.IntN(keys)) }

	requests := make([][]*request, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for range rounds {
				r := &request{t: t}
				requests[g] = append(requests[g], r)
				own := key(random)
				waiting := p.Wait(r, time.Duration(random.IntN(3000))*time.Microsecond, own,
					key(random), key(random))
				switch random.IntN(6) {
				case 0:
					r.ready.Store(true)
					p.Notify(own)
				case 1:
					other := requests[g][random.IntN(len(requests[g]))]
					other.ready.Store(true)
					p.Notify(key(random))
				case 2:
					waiting.Cancel()
				case 3:
					r.ready.Store(true)
					waiting.Check()
				case 4:
					waiting.Reset(time.Duration(random.IntN(3000)) * time.Microsecond)
				}
			}
		})
	}
	group.Wait()
	p.Close()
	for _, some := range requests {
		for _, r := range some {
			if !r.ended() {
				t.Fatal("an operation did not end")
			}
		}
	}
	wantEmpty(t, p)
	now := p.figures()
	if ends := now.completed + now.expired; ends != goroutines*rounds {
		t.Errorf("%d operations ended of %d", ends, goroutines*rounds)
	}
}

// TestNoWakeupIsLost passes an operation to Wait in one goroutine, while another goroutine makes
// the operation ready and notifies its key. So the checks, the addition to the lists and the event
// occur in every order. The operation must have ended when both goroutines have returned.
func TestNoWakeupIsLost(t *testing.T) {
	p := NewPurgatory[string](Options{Operation: "test"})
	defer p.Close()
	for range 5000 {
		r := &request{t: t}
		var group sync.WaitGroup
		group.Go(func() { p.Wait(r, time.Hour, "a", "b") })
		group.Go(func() {
			r.ready.Store(true)
			p.Notify("b")
		})
		group.Wait()
		if !r.ended() {
			t.Fatal("the event was lost")
		}
	}
	wantEmpty(t, p)
}

// TestCompletionsRaceExpiries completes or cancels each operation at the moment at which its
// timeout passes on the real clock. The operation must end exactly once, and the purgatory's
// metrics must count its outcome correctly.
func TestCompletionsRaceExpiries(t *testing.T) {
	before := timerGoroutines()
	p := NewPurgatory[int](Options{})
	const rounds, each = 20, 200
	var completed, expired int64
	var requests []*request
	for range rounds {
		var group sync.WaitGroup
		for i := range each {
			r := &request{t: t}
			requests = append(requests, r)
			group.Go(func() {
				timeout := time.Duration(1+i%3) * time.Millisecond
				begin := time.Now()
				waiting := p.Wait(r, timeout, i, i+1)
				time.Sleep(timeout - time.Since(begin))
				r.ready.Store(true)
				switch i % 3 {
				case 0:
					p.Notify(i)
				case 1:
					waiting.Check()
				default:
					waiting.Cancel()
				}
			})
		}
		group.Wait()
	}
	p.Close() // returns after the timer's goroutine has made its last call of Expire
	for _, r := range requests {
		if r.ends.Load() != 1 {
			t.Fatalf("an operation ended %d times", r.ends.Load())
		}
		if r.expired.Load() {
			expired++
		} else {
			completed++
		}
	}
	now := p.figures()
	if now.completed != completed || now.expired != expired || completed+expired != rounds*each {
		t.Errorf("%d operations completed and %d expired; the purgatory counts %d and %d", completed, expired,
			now.completed, now.expired)
	}
	if now.pending != 0 || now.watched != 0 || p.timer.Stats().Pending != 0 {
		t.Error("the purgatory is not empty")
	}
	t.Logf("%d completed, %d expired", completed, expired)
	if after := timerGoroutines(); after > before {
		t.Errorf("%d timer goroutines remain, %d existed before", after, before)
	}
}

// timerGoroutines returns the number of goroutines in the process that run a Timer.
func timerGoroutines() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "timer.(*Timer[")
}
