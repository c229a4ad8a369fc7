package timer

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// model is a simple timer: a map from the pending entries to their due ticks.
type model struct {
	now     int64
	pending map[*Entry[int]]int64
}

func newModel() *model { return &model{pending: map[*Entry[int]]int64{}} }

func (m *model) add(e *Entry[int], due int64) { m.pending[e] = max(due, m.now+1) }

func (m *model) remove(e *Entry[int]) bool {
	_, pending := m.pending[e]
	delete(m.pending, e)
	return pending
}

func (m *model) reset(e *Entry[int], due int64) bool {
	_, pending := m.pending[e]
	if pending {
		m.add(e, due)
	}
	return pending
}

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

// skip calls the wheel's Skip, and sets the model's current tick to the wheel's current tick. This
// tick must be between the old current tick and now, and before the first entry.
func (m *model) skip(t testing.TB, wheel *Wheel[int], now int64) {
	t.Helper()
	wheel.Skip(now)
	first := int64(math.MaxInt64)
	for _, due := range m.pending {
		first = min(first, due)
	}
	if wheel.now < m.now || wheel.now > max(m.now, now) || wheel.now >= first {
		t.Fatalf("Skip from %d to %d moved to %d; the first entry is at %d", m.now, now, wheel.now, first)
	}
	if len(m.pending) == 0 && wheel.now != max(m.now, now) {
		t.Fatalf("Skip of an empty wheel from %d to %d moved to %d", m.now, now, wheel.now)
	}
	m.now = wheel.now
}

// pair consists of a wheel and its model. A test performs the same calls on both.
type pair struct {
	wheel   Wheel[int]
	model   *model
	entries []*Entry[int] // all entries that were added so far
}

// step performs one operation on the wheel and the model, and compares the two. The argument kind
// selects the operation, which selects the entry, and ticks is the distance from the current tick
// to the entry's tick.
func (p *pair) step(t testing.TB, kind, which int, ticks int64) {
	t.Helper()
	position := p.model.now + ticks
	if ticks > 0 && position < 0 {
		position = math.MaxInt64 - 1 // a wheel at the last tick accepts no entries
	}
	var e *Entry[int]
	if len(p.entries) > 0 {
		e = p.entries[which%len(p.entries)]
	}
	switch {
	case kind < 5 || e == nil:
		e = &Entry[int]{Value: len(p.entries)}
		p.entries = append(p.entries, e)
		p.wheel.Add(e, position)
		p.model.add(e, position)
	case kind < 8:
		if want := p.model.remove(e); p.wheel.Remove(e) != want {
			t.Fatalf("Remove of entry %d: the model returns %v", e.Value, want)
		}
	case kind < 10:
		if want := p.model.reset(e, position); p.wheel.Reset(e, position) != want {
			t.Fatalf("Reset of entry %d: the model returns %v", e.Value, want)
		}
	case kind < 11:
		p.model.skip(t, &p.wheel, position)
	default:
		p.advance(t, min(position, math.MaxInt64-1))
	}
	p.compareNext(t)
	p.checkInvariants(t)
}

func (p *pair) advance(t testing.TB, now int64) {
	t.Helper()
	ticks := p.model.advance(now)
	due := p.wheel.Advance(now, nil)
	if len(due) != len(ticks) {
		t.Fatalf("Advance to %d returned %d entries, the model %d", now, len(due), len(ticks))
	}
	for i, e := range due {
		if e.due != ticks[i] {
			t.Fatalf("entry %d of Advance to %d is due at %d, in the model at %d", i, now, e.due,
				ticks[i])
		}
	}
}

// compareNext checks the result of Next. It must not be after the first due entry, or a Timer would
// sleep too long. It must be after the current tick, or a Timer would not sleep at all.
func (p *pair) compareNext(t testing.TB) {
	t.Helper()
	if p.wheel.Len() != len(p.model.pending) {
		t.Fatalf("%d pending, in the model %d", p.wheel.Len(), len(p.model.pending))
	}
	next, ok := p.wheel.Next()
	if ok != (len(p.model.pending) > 0) {
		t.Fatalf("Next returned %v with %d pending", ok, len(p.model.pending))
	}
	first := int64(math.MaxInt64)
	for _, due := range p.model.pending {
		first = min(first, due)
	}
	if ok && (next > first || next <= p.model.now) {
		t.Fatalf("next bucket at %d, first entry at %d, now %d", next, first, p.model.now)
	}
}

// checkInvariants checks the invariants stated in the comment of Wheel.
func (p *pair) checkInvariants(t testing.TB) {
	t.Helper()
	seen := 0
	for i := range p.wheel.levels {
		l := &p.wheel.levels[i]
		n := int64(len(l.heads))
		if l.position != p.wheel.now/l.width || l.index != int(l.position%n) {
			t.Fatalf("level %d is at position %d, index %d; now is %d", i, l.position, l.index,
				p.wheel.now)
		}
		for b, e := range l.heads {
			if used := l.used>>b&1 == 1; used != (e != nil) {
				t.Fatalf("level %d bucket %d: used is %v", i, b, used)
			}
			for ; e != nil; e = e.next {
				seen++
				if ahead := e.due/l.width - l.position; e.due <= p.wheel.now || ahead <= 0 ||
					ahead >= n || e.due/l.width%n != int64(b) {
					t.Fatalf("level %d bucket %d holds an entry due at %d; now is %d", i, b, e.due,
						p.wheel.now)
				}
			}
		}
	}
	if seen != p.wheel.Len() {
		t.Fatalf("buckets hold %d entries, %d are pending", seen, p.wheel.Len())
	}
}

// TestWheelAgainstModel performs random operations on wheels with several numbers of buckets, and
// compares each wheel with the model. Some due ticks are before the current tick.
func TestWheelAgainstModel(t *testing.T) {
	for _, buckets := range []int{0, 2, 3, 20, 64} {
		for seed := range seed.Sequence(t, 15) {
			t.Run(fmt.Sprintf("buckets=%d,seed=%d", buckets, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				p := &pair{wheel: Wheel[int]{Buckets: buckets}, model: newModel()}
				reach := 1 + random.IntN(40)
				for range 800 {
					p.step(t, random.IntN(14), random.Int(), distance(random, reach))
				}
				p.advance(t, math.MaxInt64)
			})
		}
	}
}

// distance returns a random number of ticks below 2^(powers+1). All magnitudes are equally likely.
// Some results are near powers of the default number of buckets, zero or negative.
func distance(random *rand.Rand, powers int) int64 {
	switch random.IntN(8) {
	case 0:
		return int64(random.IntN(5)) - 3
	case 1:
		power := int64(1)
		for range random.IntN(6) {
			power *= bucketsDefault
		}
		return power + int64(random.IntN(3)) - 1
	}
	power := int64(1) << random.IntN(powers)
	return power + random.Int64N(power)
}

// FuzzWheel performs the steps that the input encodes. Each step takes 10 bytes.
func FuzzWheel(f *testing.F) {
	f.Add(
		uint8(20),
		[]byte("\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x0d\x00\x05\x00\x00\x00\x00\x00\x00\x00"),
	)
	f.Add(
		uint8(2),
		[]byte(
			"\x00\x00\xff\xff\xff\xff\xff\xff\xff\x7f\x09\x00\x01\x00\x00\x00\x00\x00\x00\x00\x0d\x00\xff\xff\xff\xff\xff\xff\xff\x7f",
		),
	)
	f.Fuzz(func(t *testing.T, buckets uint8, steps []byte) {
		p := &pair{wheel: Wheel[int]{Buckets: 2 + int(buckets)%(bucketsMax-1)}, model: newModel()}
		for ; len(steps) >= 10 && len(p.entries) < 500; steps = steps[10:] {
			p.step(t, int(steps[0])%14, int(steps[1]), int64(binary.LittleEndian.Uint64(steps[2:])))
		}
		p.advance(t, math.MaxInt64)
	})
}

// TestWheelFindsEntriesInTheirTick checks that entries are due in their exact tick, even if the
// tick is at the boundary of a bucket or level.
func TestWheelFindsEntriesInTheirTick(t *testing.T) {
	for _, start := range []int64{0, 1, 19, 20, 21, 398, 399, 400, 7999, 8000, 1 << 36,
		math.MaxInt64 - 201} {
		var wheel Wheel[int]
		wheel.Advance(start, nil)
		for timeout := int64(1); timeout <= 200; timeout++ {
			wheel.Add(&Entry[int]{}, start+timeout)
		}
		for timeout := int64(1); timeout <= 200; timeout++ {
			if due := wheel.Advance(start+timeout, nil); len(due) != 1 || due[0].due != start+
				timeout {
				t.Fatalf("start %d: tick %d returned %d entries, want 1", start, timeout, len(due))
			}
		}
	}
}

func TestWheelAcceptsEveryTick(t *testing.T) {
	for _, due := range []int64{math.MinInt64, -1, 0, 1, 19, 20, 1 << 62, math.MaxInt64 - 1,
		math.MaxInt64} {
		var wheel Wheel[int]
		wheel.Add(&Entry[int]{}, due)
		position := max(due, 1)
		if early := wheel.Advance(position-1, nil); len(early) != 0 {
			t.Errorf("an entry due at %d was returned at %d", due, position-1)
		}
		if now := wheel.Advance(position, nil); len(now) != 1 {
			t.Errorf("due %d: %d entries at %d, want 1", due, len(now), position)
		}
	}
}

func TestWheelIgnoresDecreasingTime(t *testing.T) {
	var wheel Wheel[int]
	wheel.Advance(1000, nil)
	wheel.Advance(10, nil)
	wheel.Skip(10)
	wheel.Add(&Entry[int]{}, 500)
	if due := wheel.Advance(1001, nil); len(due) != 1 {
		t.Errorf("%d entries at the next tick, want the overdue one", len(due))
	}
}

// TestAdvanceOverIdleTimeIsCheap checks that Advance over all ticks up to MaxInt64 returns all
// entries. A wheel that visited every tick would not finish this test.
func TestAdvanceOverIdleTimeIsCheap(t *testing.T) {
	var wheel Wheel[int]
	for shift := range 62 {
		wheel.Add(&Entry[int]{}, 1<<shift)
	}
	if due := wheel.Advance(math.MaxInt64, nil); len(due) != 62 || due[61].due != 1<<61 {
		t.Errorf("%d entries, want 62 in order", len(due))
	}
}

// TestWheelEntriesAreReusable checks that an entry can be added again after it was due or removed,
// and that adding a pending entry panics.
func TestWheelEntriesAreReusable(t *testing.T) {
	var wheel Wheel[int]
	var e Entry[int]
	wheel.Add(&e, 5)
	if !wheel.Remove(&e) || wheel.Remove(&e) {
		t.Error("Remove does not report whether the entry was pending")
	}
	wheel.Add(&e, 7)
	if due := wheel.Advance(7, nil); len(due) != 1 || wheel.Remove(&e) || wheel.Reset(&e, 8) {
		t.Error("an entry that was due is still pending")
	}
	wheel.Add(&e, 9)
	wantPanic(t, "adding a pending entry", func() { wheel.Add(&e, 10) })
}

func TestWheelPanicsOnMisuse(t *testing.T) {
	for _, buckets := range []int{-1, 1, 65} {
		wheel := Wheel[int]{Buckets: buckets}
		wantPanic(t, fmt.Sprintf("%d buckets", buckets), func() { wheel.Add(&Entry[int]{}, 1) })
	}
	var over Wheel[int]
	over.Advance(math.MaxInt64, nil)
	wantPanic(t, "adding after the last tick", func() { over.Add(&Entry[int]{}, 1) })
}

func wantPanic(t *testing.T, what string, do func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	do()
}

func TestWheelDoesNotAllocate(t *testing.T) {
	var wheel Wheel[int]
	var e Entry[int]
	wheel.Add(&e, 30_000) // creates the entry's level
	wheel.Remove(&e)
	if n := testing.AllocsPerRun(100,
		func() { wheel.Add(&e, 30_000); wheel.Reset(&e, 20_000); wheel.Remove(&e) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
