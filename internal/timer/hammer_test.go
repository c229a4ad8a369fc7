package timer

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestHammer lets goroutines wait, notify, cancel and time out on few keys at once. request checks that each operation ends
// exactly once and is never called from two sides; afterwards nothing may be left. Most useful with -race.
func TestHammer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := NewPurgatory[string](Options{Operation: "test"})
	const goroutines, rounds, keys = 8, 2000, 5
	key := func(random *rand.Rand) string { return fmt.Sprint(random.IntN(keys)) }

	requests := make([][]*request, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for range rounds {
				r := &request{t: t}
				requests[g] = append(requests[g], r)
				waiting := p.Wait(r, time.Duration(random.IntN(3000))*time.Microsecond, key(random), key(random), key(random))
				switch random.IntN(4) {
				case 0:
					r.ready.Store(true)
					p.Notify(waiting.anyKey())
				case 1:
					other := requests[g][random.IntN(len(requests[g]))]
					other.ready.Store(true)
					p.Notify(key(random))
				case 2:
					waiting.Cancel()
				}
			}
		})
	}
	group.Wait()
	p.Close()
	for _, some := range requests {
		for _, r := range some {
			if !r.ended() {
				t.Fatal("an operation never ended")
			}
		}
	}
	empty(t, p)
	if ends := p.completed.Load() + p.expired.Load(); ends != goroutines*rounds {
		t.Errorf("%d ends of %d operations", ends, goroutines*rounds)
	}
}

// anyKey is a key that the operation watches, "0" if it had not to wait.
func (w Waiting[K]) anyKey() K {
	var none K
	if w.item == nil {
		return none
	}
	return w.item.watches[0].key
}

// TestNoWakeupIsLost has one goroutine wait without a timeout worth the name and another make it ready and notify, in lock
// step, so that look, watch and event meet in every order. A lost event hangs the test.
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
	empty(t, p)
}

func BenchmarkPurgatoryWaitNotify(b *testing.B) {
	p := NewPurgatory[int](Options{})
	defer p.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(rand.Uint64(), 0))
		for pb.Next() {
			r := &ready{}
			k := random.IntN(1 << 20)
			p.Wait(r, time.Minute, k, k+1, k+2)
			r.yes = true
			p.Notify(k + 1)
		}
	})
}

type ready struct{ yes bool }

func (r *ready) TryComplete() bool { return r.yes }
func (r *ready) Expire()           {}
