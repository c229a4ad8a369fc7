package clean

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// of is a segment of 1000 bytes, so much of which is garbage.
func of(dead int64) candidate {
	return candidate{sizeBytes: 1000, deadBytes: dead, liveBytes: 1000 - dead, readBytes: 1000,
		removed: dead, age: time.Hour}
}

func TestChooseTakesTheBestScoresUntilGarbageIsWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		percent int
		all     []candidate
		want    string
	}{
		{0, []candidate{of(10), of(0), of(900)}, "[true false true]"}, // whatever the cost
		{50, []candidate{of(400), of(0), of(450)}, "[false false false]"},
		{20, []candidate{of(300), of(0), of(600)}, "[false false true]"},
		{10, []candidate{of(300), of(0), of(600)}, "[true false true]"},
		{90, []candidate{of(1000),
			{sizeBytes: 1000, liveBytes: 1000, readBytes: 1000, forced: true, deadBytes: 1,
				removed: 1}}, "[true true]"},
	} {
		if c.all[0].deadBytes == 1000 {
			c.all[0].readBytes = 0 // dead whole: it costs nothing
		}
		if got := fmt.Sprint(choose(c.all, c.percent)); got != c.want {
			t.Errorf("%d percent: %s, want %s", c.percent, got, c.want)
		}
	}
}

func TestOldGarbageScoresHigherThanYoung(t *testing.T) {
	old, young := of(300), of(400)
	old.age, young.age = 100*time.Hour, time.Hour
	if got := fmt.Sprint(choose([]candidate{young, old}, 25)); got != "[false true]" {
		t.Errorf("%s", got)
	}
}

func TestChooseLeavesNoMoreGarbageThanAllowed(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		var all []candidate
		for range 1 + random.IntN(20) {
			c := of(random.Int64N(1000))
			c.age, c.forced = time.Duration(random.Int64N(1e15)),
				random.IntN(10) == 0 && c.deadBytes > 0
			all = append(all, c)
		}
		percent := random.IntN(100)
		size, garbage := int64(0), int64(0)
		for i, chosen := range choose(all, percent) {
			if chosen && all[i].removed == 0 {
				t.Fatal("a segment without garbage was chosen")
			}
			if all[i].forced && !chosen {
				t.Fatal("a forced segment was not chosen")
			}
			size += all[i].sizeBytes
			if chosen {
				size -= all[i].deadBytes
			} else {
				garbage += all[i].deadBytes
			}
		}
		if garbage*100 > size*int64(percent) {
			t.Fatalf("%d of %d bytes are left, %d percent are allowed", garbage, size, percent)
		}
	}
}

// simulated is the steady state of a log of equal records: how many are rewritten for each that is
// appended, and how much of the log is garbage when a pass begins, with passes whenever so much of
// the log is dirty. It is about bytes alone: segments, batches and codecs do not matter (reference
// 6.1 has the measurements).
func simulated(maxGarbagePercent, dirtyPercent int, key func(*rand.Rand) int) (rewrites,
	peak float64) {
	const segmentRecords, appends = 500, 1_000_000
	random := rand.New(rand.NewPCG(4, 2))
	type seg struct {
		live, size int
		born       int
	}
	latest := make([]*seg, simulatedKeys)
	var segments []*seg
	active, dirty, clock, written, passes := &seg{}, 0, 0, 0, 0
	for range appends {
		clock++
		k := key(random)
		if latest[k] != nil {
			latest[k].live--
		}
		latest[k] = active
		active.live, active.size, active.born = active.live+1, active.size+1, clock
		if active.size == segmentRecords {
			segments, active, dirty = append(segments, active), &seg{}, dirty+segmentRecords
		}
		if active.size > 0 {
			continue // dirt is counted in whole segments
		}
		total := 0
		for _, s := range segments {
			total += s.size
		}
		if dirty*100 < total*dirtyPercent {
			continue
		}
		dirty = 0
		var all []candidate
		garbage := 0
		for _, s := range segments {
			garbage += s.size - s.live
			c := candidate{
				sizeBytes: int64(s.size), deadBytes: int64(s.size - s.live),
				liveBytes: int64(s.live), readBytes: int64(s.size),
				removed: int64(s.size - s.live), age: time.Duration(clock-s.born) * time.Second,
			}
			if s.live == 0 {
				c.readBytes = 0
			}
			all = append(all, c)
		}
		if clock > appends/2 {
			peak += float64(garbage) / float64(total)
			passes++
		}
		for i, chosen := range choose(all, maxGarbagePercent) {
			if !chosen {
				continue
			}
			if clock > appends/2 {
				written += segments[i].live
			}
			segments[i].size = segments[i].live
		}
		kept := segments[:0]
		for _, s := range segments {
			if s.size > 0 {
				kept = append(kept, s)
			}
		}
		segments = kept
	}
	return float64(written) / (appends / 2), peak / float64(max(1, passes))
}

// simulatedKeys is how many keys the simulation has.
const simulatedKeys = 50_000

// steadily is what simulated says for keys drawn uniformly, and by zipf's law with the exponent
// 1.2.
func steadily(maxGarbagePercent, dirtyPercent int) (uniform, uniformPeak, zipf, zipfPeak float64) {
	uniform, uniformPeak = simulated(maxGarbagePercent, dirtyPercent,
		func(r *rand.Rand) int { return r.IntN(simulatedKeys) })
	var z *rand.Zipf
	zipf, zipfPeak = simulated(maxGarbagePercent, dirtyPercent, func(r *rand.Rand) int {
		if z == nil {
			z = rand.NewZipf(r, 1.2, 1, simulatedKeys-1)
		}
		return int(z.Uint64())
	})
	return uniform, uniformPeak, zipf, zipfPeak
}

// The figures of docs/adr/0125 come from this: go test -run SteadyState -v
// ./internal/logstore/clean
func TestSteadyStateCostsLessTheMoreGarbageIsAllowed(t *testing.T) {
	before := [2]float64{1e9, 1e9}
	for _, percent := range []int{0, 5, 10, 20, 33, 50} {
		u, up, z, zp := steadily(percent, 50)
		t.Logf(
			"%2d %% garbage may stay: rewritten per appended %.2f uniform, %.2f zipf 1.2; garbage when a pass begins %.0f %%, %.0f %%",
			percent,
			u,
			z,
			up*100,
			zp*100,
		)
		if u > before[0]*1.05 || z > before[1]*1.05 {
			t.Errorf("%d %%: %.2f and %.2f, more than with less garbage", percent, u, z)
		}
		before = [2]float64{u, z}
	}
}

// With half of the log garbage at the peak, a third of what is appended is rewritten at most, and
// less where some keys are hot.
func TestSteadyStateAtAPeakOfHalfTheLog(t *testing.T) {
	for _, c := range []struct{ percent, dirty int }{{45, 10}, {35, 25}, {0, 50}} {
		u, up, z, zp := steadily(c.percent, c.dirty)
		t.Logf(
			"minDirtyPercent %d, maxGarbagePercent %d: rewritten per appended %.2f uniform, %.2f zipf 1.2; garbage when a pass begins %.0f %%, %.0f %%",
			c.dirty,
			c.percent,
			u,
			z,
			up*100,
			zp*100,
		)
		if up > 0.52 || zp > 0.52 {
			t.Errorf(
				"minDirtyPercent %d, maxGarbagePercent %d: %.0f and %.0f %% are garbage at the peak",
				c.dirty,
				c.percent,
				up*100,
				zp*100,
			)
		}
		if c.dirty == 10 && (u > 0.35 || z > 0.2) {
			t.Errorf("%.2f uniform and %.2f zipf 1.2 are rewritten, want at most 0.35 and 0.2", u,
				z)
		}
	}
}
