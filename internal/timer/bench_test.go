package timer

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// docs/internals/bench/purgatory.md contains the results of these benchmarks. Use benchstat to
// compare new results with old ones.

// fill returns a wheel with count pending entries that are due within a minute.
func fill(count int) *Wheel[int] {
	wheel := new(Wheel[int])
	random := rand.New(rand.NewPCG(1, 1))
	entries := make([]Entry[int], count)
	// Use a random order, so that neighbours in a bucket are not adjacent in memory.
	for _, i := range random.Perm(count) {
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
				wheel.Remove(e) // the entry added 1024 iterations ago
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

// addRemover returns a function that keeps 1024 timeouts pending. Each call removes the oldest
// timeout and adds another one. The caller passes the number of the call, counted from 0.
func addRemover(timer *Timer[int]) func(call int) {
	entries := make([]Entry[int], 1024)
	return func(call int) {
		e := &entries[call%len(entries)]
		timer.Remove(e)
		timer.Add(e, time.Duration(1+call%30_000)*time.Millisecond+time.Minute)
	}
}

func timerWithPending(b *testing.B, pending int) *Timer[int] {
	b.Helper()
	timer := NewTimer(TimerOptions{}, func(int) {})
	b.Cleanup(timer.Close)
	entries := make([]Entry[int], pending)
	for i := range entries {
		timer.Add(&entries[i], time.Hour+time.Duration(i)*time.Microsecond)
	}
	return timer
}

// BenchmarkAddRemove measures Timer.Add and Timer.Remove, including lock and clock, in one
// goroutine.
func BenchmarkAddRemove(b *testing.B) {
	for _, pending := range pendings {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			addRemove := addRemover(timerWithPending(b, pending))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				addRemove(i)
			}
		})
	}
}

// BenchmarkAddRemoveContended measures Timer.Add and Timer.Remove, in one goroutine and in four
// goroutines per CPU.
func BenchmarkAddRemoveContended(b *testing.B) {
	for _, perCPU := range []int{1, 4} {
		b.Run(fmt.Sprintf("goroutines=%dx", perCPU), func(b *testing.B) {
			timer := timerWithPending(b, 100_000)
			b.ReportAllocs()
			b.SetParallelism(perCPU)
			b.RunParallel(func(pb *testing.PB) {
				addRemove := addRemover(timer)
				for i := 0; pb.Next(); i++ {
					addRemove(i)
				}
			})
		})
	}
}

// BenchmarkReset measures Timer.Reset with 100,000 pending entries. A session calls Reset for each
// heartbeat.
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

// BenchmarkWaitNotify adds an operation that watches three of a million keys, and completes it by
// notifying one of the three.
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
			r.complete = true
			p.Notify(k + 1)
		}
	})
}

type ready struct{ complete bool }

func (r *ready) TryComplete() bool { return r.complete }
func (r *ready) Expire()           {}
