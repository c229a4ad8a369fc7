package sim

import (
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "run only this seed")
	runsFlag = flag.Int("sim.runs", 0,
		"number of seeds to run (default: 100)")
	timeFlag   = flag.Duration("sim.time", 0, "how long to run seeds")
	parentFlag = flag.Bool("sim.parent", false, "run all seeds with the metadata of `heartwood dev`")
	powerFlag  = flag.Bool("sim.power", false, "the power of all brokers may fail in all runs")
	errorsFlag = flag.Bool("sim.errors", false, "disks return errors in all runs")
	fromFlag   = flag.Uint64("sim.from", 0, "the first seed (default: 1; HEARTWOOD_SEED overrides it)")
)

const (
	runsDefault = 100
	// stuckAfter is the real time after which a run without progress is considered deadlocked. A step
	// of 100 ms of simulated time usually takes only milliseconds.
	stuckAfter = 5 * time.Minute
)

// progress counts the steps of runFor over all runs.
var progress atomic.Int64

// TestMain limits the process to one thread. Goroutines that are runnable at the same bubble time
// then run in nearly the same order each time. A run allocates much memory but keeps little, so the
// garbage collector can wait for a larger heap.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestSimulation runs seeds and stops at the first seed that violates an invariant.
func TestSimulation(t *testing.T) {
	single := *seedFlag
	if given, ok := seed.Single(t); ok {
		single = given
	}
	if single != 0 {
		var out io.Writer
		if testing.Verbose() {
			out = os.Stdout
		}
		t.Logf("%+v", runGuarded(t, single, out))
		return
	}
	runs := runsDefault
	switch {
	case *timeFlag > 0:
		runs = math.MaxInt
	case *runsFlag > 0:
		runs = *runsFlag
	}
	begin, completed := time.Now(), 0
	var sum tally
	for seed := range seeds(t, runs) {
		t.Run(fmt.Sprintf("seed=%d", seed),
			func(t *testing.T) { sum.add(runGuarded(t, seed, nil)) })
		if t.Failed() {
			return
		}
		if completed++; *timeFlag > 0 && time.Since(begin) >= *timeFlag {
			break
		}
	}
	t.Logf("%d runs: %+v", completed, sum)
	if completed >= runsDefault && !sum.reaches(completed) {
		t.Error("the runs did not exercise everything that the simulation is for")
	}
}

// seeds returns n consecutive seeds. They begin at 1, unless a flag or environment variable sets
// another start.
func seeds(t *testing.T, n int) iter.Seq[uint64] {
	if os.Getenv(seed.Variable) != "" {
		return seed.Sequence(t, n)
	}
	return func(yield func(uint64) bool) {
		for i := range n {
			if !yield(max(*fromFlag, 1) + uint64(i)) {
				return
			}
		}
	}
}

// runGuarded runs one seed, and ends the process if the run makes no progress.
func runGuarded(t *testing.T, seed uint64, out io.Writer) tally {
	var guard *time.Timer
	seen := progress.Load()
	guard = time.AfterFunc(stuckAfter, func() {
		if now := progress.Load(); now != seen { // the run is slow, but makes progress
			seen = now
			guard.Reset(stuckAfter)
			return
		}
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%s\nseed %d has made no progress for %s\n",
			buf[:runtime.Stack(buf, true)], seed, stuckAfter)
		os.Exit(1)
	})
	defer guard.Stop()
	return runSeed(t, seed, out)
}
