package timer

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Compare what follows with benchstat; docs/bench/purgatory.md has the figures.

// fill makes a wheel in which count entries are pending, up to a minute ahead.
func fill(count int) *Wheel[int] {
	wheel := new(Wheel[int])
	random := rand.New(rand.NewPCG(1, 1))
	entries := make([]Entry[int], count)
	for _, i := range random.Perm(count) { // neighbours in a bucket are not neighbours in memory
		wheel.Add(&entries[i], 1+random.Int64N(60_000))
	}
	return wheel
}

var pendings = []int{1_000, 100_000, 1_000_000}

func BenchmarkWheelAdd(b *testing.B) {
	var wheel Wheel[int]
	entries := make([]Entry[int], b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range entries {
		wheel.Add(&entries[i], int64(1+i%30_000))
	}
}

func BenchmarkWheelAddRemove(b *testing.B) {
	for _, pending := range pendings {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			wheel := fill(pending)
			entries := make([]Entry[int], 1024)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := &entries[i%len(entries)]
				wheel.Remove(e) // that of 1024 turns ago
				wheel.Add(e, int64(1+i%30_000))
			}
		})
	}
}

func BenchmarkWheelExpire(b *testing.B) {
	const count = 1_000_000
	entries := make([]Entry[int], count)
	due := make([]*Entry[int], 0, count)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		var wheel Wheel[int]
		for i := range entries {
			wheel.Add(&entries[i], int64(1+i%60_000))
		}
		b.StartTimer()
		if due = wheel.Advance(60_000, due[:0]); len(due) != count {
			b.Fatalf("%d expired", len(due))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/entry")
}

// addRemover is a way to keep timeouts, as seen by one goroutine: add takes one on, and gives up
// that of 1024 turns ago.
type addRemover func(turn int, timeout time.Duration)

// ways are the Timer and what could stand in its place.
func ways(b *testing.B) map[string]func(pending int) (perGoroutine func() addRemover, stop func()) {
	b.Helper()
	return map[string]func(int) (func() addRemover, func()){
		"timer":     timerWay,
		"afterfunc": afterFuncWay,
		"heap":      heapWay,
	}
}

func timerWay(pending int) (func() addRemover, func()) {
	timer := NewTimer(TimerOptions{}, func(int) {})
	held := make([]Entry[int], pending)
	for i := range held {
		timer.Add(&held[i], time.Hour+time.Duration(i)*time.Microsecond)
	}
	return func() addRemover {
		entries := make([]Entry[int], 1024)
		return func(turn int, timeout time.Duration) {
			e := &entries[turn%len(entries)]
			timer.Remove(e)
			timer.Add(e, timeout)
		}
	}, timer.Close
}

func afterFuncWay(pending int) (func() addRemover, func()) {
	held := make([]*time.Timer, pending)
	for i := range held {
		held[i] = time.AfterFunc(time.Hour+time.Duration(i)*time.Microsecond, func() {})
	}
	stop := func() {
		for _, timer := range held {
			timer.Stop()
		}
	}
	return func() addRemover {
		timers := make([]*time.Timer, 1024)
		return func(turn int, timeout time.Duration) {
			slot := &timers[turn%len(timers)]
			if *slot != nil {
				(*slot).Stop()
			}
			*slot = time.AfterFunc(timeout, func() {})
		}
	}, stop
}

func heapWay(pending int) (func() addRemover, func()) {
	var mu sync.Mutex
	var queue binaryHeap
	for i := range pending {
		heap.Push(&queue, &heaped{due: time.Now().Add(time.Hour +
			time.Duration(i)*time.Microsecond)})
	}
	return func() addRemover {
		entries := make([]heaped, 1024)
		for i := range entries {
			entries[i].index = -1
		}
		return func(turn int, timeout time.Duration) {
			e := &entries[turn%len(entries)]
			due := time.Now().Add(timeout)
			mu.Lock()
			defer mu.Unlock()
			if e.index >= 0 {
				heap.Remove(&queue, e.index)
			}
			e.due = due
			heap.Push(&queue, e)
		}
	}, func() {}
}

type heaped struct {
	due   time.Time
	index int
}

type binaryHeap []*heaped

func (h binaryHeap) Len() int           { return len(h) }
func (h binaryHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h binaryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *binaryHeap) Push(x any) {
	e := x.(*heaped)
	e.index = len(*h)
	*h = append(*h, e)
}

func (h *binaryHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	e.index = -1
	*h = (*h)[:last]
	return e
}

// BenchmarkAddRemove is the shell's, with lock and clock, from one goroutine, among many that are
// pending.
func BenchmarkAddRemove(b *testing.B) {
	for name, way := range ways(b) {
		for _, pending := range pendings {
			b.Run(fmt.Sprintf("way=%s/pending=%d", name, pending), func(b *testing.B) {
				perGoroutine, stop := way(pending)
				defer stop()
				do := perGoroutine()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					do(i, time.Duration(1+i%30_000)*time.Millisecond+time.Minute)
				}
			})
		}
	}
}

// BenchmarkAddRemoveContended is the same from as many goroutines as there are processors, and four
// times as many.
func BenchmarkAddRemoveContended(b *testing.B) {
	for name, way := range ways(b) {
		for _, times := range []int{1, 4} {
			b.Run(fmt.Sprintf("way=%s/goroutines=%dx", name, times), func(b *testing.B) {
				perGoroutine, stop := way(100_000)
				defer stop()
				b.ReportAllocs()
				b.SetParallelism(times)
				b.RunParallel(func(pb *testing.PB) {
					do := perGoroutine()
					for i := 0; pb.Next(); i++ {
						do(i, time.Duration(1+i%30_000)*time.Millisecond+time.Minute)
					}
				})
			})
		}
	}
}

// BenchmarkReset is a session renewed.
func BenchmarkReset(b *testing.B) {
	timer := NewTimer(TimerOptions{}, func(int) {})
	defer timer.Close()
	sessions := make([]Entry[int], 100_000)
	for i := range sessions {
		timer.Add(&sessions[i], time.Minute)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		timer.Reset(&sessions[i%len(sessions)], time.Minute)
	}
}

// BenchmarkWaitNotify is a request's whole life in the purgatory, on three keys of a million.
func BenchmarkWaitNotify(b *testing.B) {
	p := NewPurgatory[int](Options{})
	defer p.Close()
	b.ReportAllocs()
	var routines atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		random := rand.New(rand.NewPCG(uint64(routines.Add(1)), 0))
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
