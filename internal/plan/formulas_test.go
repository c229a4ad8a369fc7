package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// near checks that got deviates from want by at most the fraction share of want.
func near(t *testing.T, name string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s: got %.6g, want %.6g", name, got, want)
	}
}

// The case for which docs/operate/sizing.md compares the cleaner with Kafka's: 8 partitions, each
// with 200 M keys and 300 M dirty records, and 1.25 KB per record on disk. The expected values of
// the tests below were computed independently.
const (
	caseKeys  = 200e6
	caseDirty = 300e6
	caseBytes = 8 * 1250.0 // size of one record in each of the 8 partitions
	tera      = 1e12
)

// TestPassOfTheCaseStudy compares the estimate of a pass with the expected values: TB read, TB
// written, and TB after decompression (at a ratio of 4:1).
func TestPassOfTheCaseStudy(t *testing.T) {
	for _, c := range []struct{ batch, read, written, decompressed float64 }{
		{12, 4.88, 2.00, 18.9},
		{3, 3.53, 2.00, 11.4},
	} {
		shares := uniformPass(caseKeys, caseDirty, c.batch)
		all := (caseKeys + caseDirty) * caseBytes / tera
		name := fmt.Sprintf("%g records per batch: ", c.batch)
		near(t, name+"read", all*(1-shares.dead), c.read, 0.002)
		near(t, name+"written", all*shares.live, c.written, 0.002)
		near(t, name+"decompressed", all*shares.mixed()*4, c.decompressed, 0.005)
	}
	near(t, "entries of the sidecars read", (caseKeys+caseDirty)*8*sidecarEntryBytes/tera, 0.064,
		1e-9)
}

// TestKafkaInTheCaseStudy compares the estimate for Kafka's cleaner with the expected values:
// keys per pass, number of passes, TB read and TB written.
func TestKafkaInTheCaseStudy(t *testing.T) {
	for _, c := range []struct {
		buffer                     float64
		keys, passes, read, writes float64
	}{
		{128 << 20, 5.03e6, 59, 124, 118},
		{1 << 30, 40.3e6, 7, 20, 14},
		{2<<30 - 1, 80.5e6, 3, 12, 6},
		{7.2e9, 270e6, 1, 8, 2},
	} {
		n := kafkaKeys(c.buffer)
		passes, read, written := kafkaPasses(caseKeys, caseDirty, uniformWindow(caseKeys, n))
		name := fmt.Sprintf("buffer of %g: ", c.buffer)
		near(t, name+"keys", n, c.keys, 0.001)
		near(t, name+"passes", passes, c.passes, 0)
		near(t, name+"read", read*caseBytes/tera, c.read, 0.005)
		near(t, name+"written", written*caseBytes/tera, c.writes, 0.005)
	}
}

// TestRewritesByFractionOfGarbage compares the number of rewritten records per appended record with
// expected values, for two fractions of garbage in the log. It also checks that liveFraction solves
// its equation.
func TestRewritesByFractionOfGarbage(t *testing.T) {
	near(t, "50 %", rewrites(liveFraction(0.50)), 0.26, 0.02)
	near(t, "33 %", rewrites(liveFraction(0.33)), 0.73, 0.02)
	for g := 0.01; g < 1; g += 0.01 {
		u := liveFraction(g)
		near(t, "garbage for the live fraction", 1-(1-u)/-math.Log(u), g, 1e-9)
	}
}

// TestDeadBatchesBySize checks the probability that a batch of n records is dead if 22 % of the
// records survive (F8).
func TestDeadBatchesBySize(t *testing.T) {
	dirty := -math.Log(0.22) // 22 % of the keys survive this number of updates per key
	for n, want := range map[float64]float64{3: 0.47, 12: 0.05, 50: 0} {
		clean := 1e9 // a large clean section
		shares := uniformPass(clean, dirty*clean, n)
		dead := math.Pow(1-0.22, n)
		if math.Abs(dead-want) > 0.01 {
			t.Errorf("(1-s)^%g: got %g, want %g", n, dead, want)
		}
		if low := clean * dead / (clean + dirty*clean); shares.dead < low {
			t.Errorf("batches of %g records: got a dead fraction of %g, want at least %g", n, shares.dead,
				low)
		}
	}
}

// TestUniformPassAgainstSimulation compares uniformPass with counts in a log of random keys.
func TestUniformPassAgainstSimulation(t *testing.T) {
	const clean, n = 60_000, 6
	for _, dirty := range []int{6_000, 60_000, 150_000} {
		seed := uint64(dirty)
		random := rand.New(rand.NewPCG(seed, 1))
		log := make([]int, 0, clean+dirty)
		for range dirty {
			log = append(log, random.IntN(clean))
		}
		log = append(random.Perm(clean), log...)
		latest := make([]int, clean)
		for i, key := range log {
			latest[key] = i
		}
		var dead, whole float64
		for i := 0; i < len(log); i += n {
			live := 0
			for j := i; j < i+n; j++ {
				if latest[log[j]] == j {
					live++
				}
			}
			switch live {
			case 0:
				dead += n
			case n:
				whole += n
			}
		}
		shares, all := uniformPass(clean, float64(dirty), n), float64(len(log))
		if math.Abs(shares.dead-dead/all) > 0.01 || math.Abs(shares.whole-whole/all) > 0.01 {
			t.Errorf("seed %d, %d dirty records: got dead %.4f, whole %.4f; simulated %.4f, %.4f", seed, dirty,
				shares.dead, shares.whole, dead/all, whole/all)
		}
	}
}

func TestDirtyAt(t *testing.T) {
	for ratio, want := range map[float64]float64{0: 0, 0.25: 100.0 / 3, 0.5: 100, 0.75: 300} {
		near(t, fmt.Sprintf("dirty at %g", ratio), dirtyAt(ratio, 100), want, 1e-9)
	}
}

func TestWindowsAndSlices(t *testing.T) {
	// The bitmaps of 500 M records take 62.5 MB in total. A budget of 128 MiB allows bitmaps
	// of 64 MiB.
	near(t, "windows", windows(500e6, 1, 128<<20), 1, 0)
	near(t, "windows with tombstones", windows(500e6, 3, 128<<20), 3, 0)
	near(t, "windows in 1 MiB", windows(500e6, 1, 1<<20), 120, 0)
	near(t, "slices of a small log", slices(1000, 125, 128<<20), 1, 0)
	// A table of 64 MiB at a load factor of 3/4 has space for 2.1 M keys.
	near(t, "slices", slices(500e6, 62.5e6, 128<<20), 223, 0.01)
}
