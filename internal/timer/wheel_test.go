package timer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is the dumbest timer: a list of what is pending.
type model struct {
	now     int64
	pending map[*Entry[int]]int64
}

func (m *model) add(e *Entry[int], due int64) { m.pending[e] = max(due, m.now+1) }

func (m *model) advance(now int64) []int64 {
	var ticks []int64
	for e, due := range m.pending {
		if due <= now {
			ticks = append(ticks, due)
			delete(m.pending, e)
		}
	}
	m.now = max(m.now, now)
	slices.Sort(ticks)
	return ticks
}

// TestWheelAgainstModel compares the wheel with the list over random adds, cancels and steps of every size.
func TestWheelAgainstModel(t *testing.T) {
	for range 50 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var wheel Wheel[int]
			want := model{pending: map[*Entry[int]]int64{}}
			var entries []*Entry[int] // pending in the model, or once were
			for range 3000 {
				switch step := random.IntN(10); {
				case step < 5:
					e := &Entry[int]{Value: len(entries)}
					due := want.now + distance(random)
					entries = append(entries, e)
					wheel.Add(e, due)
					want.add(e, due)
				case step < 8 && len(entries) > 0:
					e := entries[random.IntN(len(entries))]
					_, isPending := want.pending[e]
					if wheel.Cancel(e) != isPending {
						t.Fatalf("cancel of entry %d: pending is %v in the model", e.Value, isPending)
					}
					delete(want.pending, e)
				default:
					compareAdvance(t, &wheel, &want, want.now+distance(random)-3)
				}
				compareNext(t, &wheel, &want)
			}
			compareAdvance(t, &wheel, &want, math.MaxInt64)
		})
	}
}

// distance draws a number of ticks from all magnitudes, with a liking for the borders of levels.
func distance(random *rand.Rand) int64 {
	power := int64(1) << random.IntN(40)
	return power + random.Int64N(power) - random.Int64N(2)
}

func compareAdvance(t *testing.T, wheel *Wheel[int], want *model, now int64) {
	t.Helper()
	ticks := want.advance(now)
	due := wheel.Advance(now, nil)
	if len(due) != len(ticks) {
		t.Fatalf("advance to %d yields %d entries, the model %d", now, len(due), len(ticks))
	}
	for i, e := range due {
		if e.due != ticks[i] {
			t.Fatalf("entry %d of advance to %d was due at %d, in the model at %d", i, now, e.due, ticks[i])
		}
	}
}

// compareNext: Next is never later than the first entry, so that the shell does not oversleep, and later than now, so that it
// sleeps at all.
func compareNext(t *testing.T, wheel *Wheel[int], want *model) {
	t.Helper()
	if wheel.Len() != len(want.pending) {
		t.Fatalf("%d pending, in the model %d", wheel.Len(), len(want.pending))
	}
	next, ok := wheel.Next()
	if ok != (len(want.pending) > 0) {
		t.Fatalf("next says %v with %d pending", ok, len(want.pending))
	}
	first := int64(math.MaxInt64)
	for _, due := range want.pending {
		first = min(first, due)
	}
	if ok && (next > first || next <= want.now) {
		t.Fatalf("next bucket at %d, first entry at %d, now %d", next, first, want.now)
	}
}

// TestWheelFindsEntriesInTheirTick walks tick by tick over the borders of levels.
func TestWheelFindsEntriesInTheirTick(t *testing.T) {
	for _, start := range []int64{0, 1, 63, 64, 65, 4094, 4095, 4096, 262143, 1 << 36} {
		var wheel Wheel[int]
		wheel.Advance(start, nil)
		for timeout := int64(1); timeout <= 200; timeout++ {
			wheel.Add(&Entry[int]{}, start+timeout)
		}
		for timeout := int64(1); timeout <= 200; timeout++ {
			if due := wheel.Advance(start+timeout, nil); len(due) != 1 || due[0].due != start+timeout {
				t.Fatalf("start %d: tick %d yields %d entries", start, timeout, len(due))
			}
		}
	}
}

func TestWheelTakesEveryDueTick(t *testing.T) {
	for _, due := range []int64{math.MinInt64, -1, 0, 1, 63, 64, 1 << 62, math.MaxInt64 - 1, math.MaxInt64} {
		var wheel Wheel[int]
		wheel.Add(&Entry[int]{}, due)
		at := max(due, 1)
		if early := wheel.Advance(at-1, nil); len(early) != 0 {
			t.Errorf("due %d: yielded at %d", due, at-1)
		}
		if now := wheel.Advance(at, nil); len(now) != 1 {
			t.Errorf("due %d: %d entries at %d", due, len(now), at)
		}
	}
}

func TestWheelIgnoresTimeThatGoesBackwards(t *testing.T) {
	var wheel Wheel[int]
	wheel.Advance(1000, nil)
	wheel.Advance(10, nil)
	wheel.Add(&Entry[int]{}, 500)
	if due := wheel.Advance(1001, nil); len(due) != 1 {
		t.Errorf("%d entries after the next tick, want the one that was due already", len(due))
	}
}

// TestWheelEntriesAreReusable: an operation's entry may be added again after it came due or was cancelled, and adding twice is
// a bug that must not corrupt lists in silence.
func TestWheelEntriesAreReusable(t *testing.T) {
	var wheel Wheel[int]
	var e Entry[int]
	wheel.Add(&e, 5)
	if !wheel.Cancel(&e) || wheel.Cancel(&e) {
		t.Error("cancel does not tell whether the entry was pending")
	}
	wheel.Add(&e, 7)
	if due := wheel.Advance(7, nil); len(due) != 1 || wheel.Cancel(&e) {
		t.Error("an entry that came due is still pending")
	}
	wheel.Add(&e, 9)
	defer func() {
		if recover() == nil {
			t.Error("adding a pending entry was taken")
		}
	}()
	wheel.Add(&e, 10)
}

func TestWheelAddAndCancelDoNotAllocate(t *testing.T) {
	var wheel Wheel[int]
	var e Entry[int]
	wheel.Add(&e, 30_000) // makes its level
	wheel.Cancel(&e)
	if n := testing.AllocsPerRun(100, func() { wheel.Add(&e, 30_000); wheel.Cancel(&e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWheelAddCancelWithAMillionPending(b *testing.B) {
	var wheel Wheel[int]
	random := rand.New(rand.NewPCG(1, 1))
	for range 1_000_000 {
		wheel.Add(&Entry[int]{}, 1+random.Int64N(60_000))
	}
	entries := make([]Entry[int], 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &entries[i%len(entries)]
		wheel.Add(e, int64(1+i%30_000))
		wheel.Cancel(e)
	}
}
