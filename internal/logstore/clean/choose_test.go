package clean

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// withGarbage returns a candidate of 1000 bytes with the given number of dead bytes.
func withGarbage(dead int64) candidate {
	return candidate{sizeBytes: 1000, deadBytes: dead, liveBytes: 1000 - dead, readBytes: 1000,
		removed: dead, age: time.Hour}
}

func TestChooseTakesTheBestScoresUntilGarbageIsWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		percent int
		all     []candidate
		want    string
	}{
		// At 0 percent every segment with garbage is chosen.
		{0, []candidate{withGarbage(10), withGarbage(0), withGarbage(900)}, "[true false true]"},
		{50, []candidate{withGarbage(400), withGarbage(0), withGarbage(450)},
			"[false false false]"},
		{20, []candidate{withGarbage(300), withGarbage(0), withGarbage(600)}, "[false false true]"},
		{10, []candidate{withGarbage(300), withGarbage(0), withGarbage(600)}, "[true false true]"},
		{90, []candidate{withGarbage(1000),
			{sizeBytes: 1000, liveBytes: 1000, readBytes: 1000, forced: true, deadBytes: 1,
				removed: 1}}, "[true true]"},
	} {
		if c.all[0].deadBytes == 1000 {
			c.all[0].readBytes = 0 // a fully dead segment is not read
		}
		if got := fmt.Sprint(choose(c.all, c.percent)); got != c.want {
			t.Errorf("at %d percent: %s, want %s", c.percent, got, c.want)
		}
	}
}

func TestOldGarbageScoresHigherThanYoung(t *testing.T) {
	old, young := withGarbage(300), withGarbage(400)
	old.age, young.age = 100*time.Hour, time.Hour
	if got := fmt.Sprint(choose([]candidate{young, old}, 25)); got != "[false true]" {
		t.Errorf("chosen: %s, want the old segment only", got)
	}
}

func TestChooseLeavesNoMoreGarbageThanAllowed(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	for range 2000 {
		var all []candidate
		for range 1 + random.IntN(20) {
			c := withGarbage(random.Int64N(1000))
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
			t.Fatalf("%d of %d bytes remain garbage, %d percent are allowed", garbage, size,
				percent)
		}
	}
}

// simulate appends a million records of equal size to a simulated log, which is cleaned whenever
// dirtyPercent of the log is dirty. For the second half of the appends, it returns the number of
// records rewritten per appended record, and the mean share of garbage at the start of a pass. It
// does not simulate batches or codecs.
func simulate(maxGarbagePercent, dirtyPercent int, key func(*rand.Rand) int) (rewrites,
	peak float64) {
	const segmentRecords, appends = 500, 1_000_000
	random := rand.New(rand.NewPCG(4, 2))
	type seg struct {
		live, size int
		born       int
	}
	latest := make([]*seg, simulatedKeys)
	var segments []*seg
	active, dirty, now, written, passes := &seg{}, 0, 0, 0, 0
	for range appends {
		now++
		k := key(random)
		if latest[k] != nil {
			latest[k].live--
		}
		latest[k] = active
		active.live, active.size, active.born = active.live+1, active.size+1, now
		if active.size == segmentRecords {
			segments, active, dirty = append(segments, active), &seg{}, dirty+segmentRecords
		}
		if active.size > 0 {
			continue // only sealed segments are dirty
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
				removed: int64(s.size - s.live), age: time.Duration(now-s.born) * time.Second,
			}
			if s.live == 0 {
				c.readBytes = 0
			}
			all = append(all, c)
		}
		if now > appends/2 {
			peak += float64(garbage) / float64(total)
			passes++
		}
		for i, chosen := range choose(all, maxGarbagePercent) {
			if !chosen {
				continue
			}
			if now > appends/2 {
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

// simulatedKeys is the number of different keys in the simulation.
const simulatedKeys = 50_000

// steadyState returns simulate's results for uniformly distributed keys, and for a Zipf
// distribution with exponent 1.2.
func steadyState(maxGarbagePercent, dirtyPercent int) (uniform, uniformPeak, zipf,
	zipfPeak float64) {
	uniform, uniformPeak = simulate(maxGarbagePercent, dirtyPercent,
		func(r *rand.Rand) int { return r.IntN(simulatedKeys) })
	var z *rand.Zipf
	zipf, zipfPeak = simulate(maxGarbagePercent, dirtyPercent, func(r *rand.Rand) int {
		if z == nil {
			z = rand.NewZipf(r, 1.2, 1, simulatedKeys-1)
		}
		return int(z.Uint64())
	})
	return uniform, uniformPeak, zipf, zipfPeak
}

// The output of go test -run SteadyState -v ./internal/logstore/clean contains the figures in ADR
// 0125.
func TestSteadyStateCostsLessTheMoreGarbageIsAllowed(t *testing.T) {
	before := [2]float64{1e9, 1e9}
	for _, percent := range []int{0, 5, 10, 20, 33, 50} {
		u, up, z, zp := steadyState(percent, 50)
		t.Logf("maxGarbagePercent %2d: rewritten per appended %.2f uniform, %.2f zipf 1.2; "+
			"garbage at the start of a pass %.0f %%, %.0f %%", percent, u, z, up*100, zp*100)
		if u > before[0]*1.05 || z > before[1]*1.05 {
			t.Errorf("maxGarbagePercent %d rewrites %.2f and %.2f, more than a lower one", percent,
				u, z)
		}
		before = [2]float64{u, z}
	}
}

// TestSteadyStateAtAPeakOfHalfTheLog checks several settings with which half of the log is garbage
// just before a pass. With minDirtyPercent 10, passes rewrite about one record for every three
// appended records, and fewer if some keys are updated more often than others.
func TestSteadyStateAtAPeakOfHalfTheLog(t *testing.T) {
	for _, c := range []struct{ percent, dirty int }{{45, 10}, {35, 25}, {0, 50}} {
		u, up, z, zp := steadyState(c.percent, c.dirty)
		t.Logf("minDirtyPercent %d, maxGarbagePercent %d: rewritten per appended %.2f uniform, "+
			"%.2f zipf 1.2; garbage at the start of a pass %.0f %%, %.0f %%", c.dirty, c.percent, u,
			z, up*100, zp*100)
		if up > 0.52 || zp > 0.52 {
			t.Errorf("minDirtyPercent %d, maxGarbagePercent %d: %.0f and %.0f %% garbage at the peak",
				c.dirty, c.percent, up*100, zp*100)
		}
		if c.dirty == 10 && (u > 0.35 || z > 0.2) {
			t.Errorf("rewritten per appended %.2f uniform and %.2f zipf 1.2, want at most 0.35 and 0.2",
				u, z)
		}
	}
}
