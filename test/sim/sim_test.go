package sim

import (
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "play this seed alone")
	runsFlag = flag.Int("sim.runs", 0,
		"play so many seeds; default: as many as make test has time for")
	timeFlag = flag.Duration("sim.time", 0, "play seeds for so long")
	fromFlag = flag.Uint64("sim.from", 0, "the first seed; default: 1, or as HEARTWOOD_SEED says")
)

const (
	runsDefault = 100
	// stuckAfter is how long of real time a tenth of a second of a run's may take. It takes
	// milliseconds: one that takes this long does not end.
	stuckAfter = 5 * time.Minute
)

// progress counts those tenths.
var progress atomic.Int64

// TestMain gives the bubble one thread: what runs at the same moment of its time then does so in
// nearly the same order each time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// TestSimulation plays seeds, and fails with the first that breaks a promise.
func TestSimulation(t *testing.T) {
	alone := *seedFlag
	if given, ok := seed.Alone(t); ok {
		alone = given
	}
	if alone != 0 {
		var out io.Writer
		if testing.Verbose() {
			out = os.Stdout
		}
		t.Logf("%+v", playGuarded(t, alone, out))
		return
	}
	runs := runsDefault
	switch {
	case *timeFlag > 0:
		runs = math.MaxInt
	case *runsFlag > 0:
		runs = *runsFlag
	}
	began, played := time.Now(), 0
	var sum tally
	for seed := range seeds(t, runs) {
		t.Run(fmt.Sprintf("seed=%d", seed),
			func(t *testing.T) { sum.add(playGuarded(t, seed, nil)) })
		if t.Failed() {
			return
		}
		if played++; *timeFlag > 0 && time.Since(began) >= *timeFlag {
			break
		}
	}
	t.Logf("%d runs: %+v", played, sum)
	if played >= runsDefault && !sum.reaches(played) {
		t.Error("the simulation does not reach what it is for")
	}
}

// seeds are n seeds one after the other: those that were always played, 1 and on, unless somebody
// wants others.
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

// playGuarded plays one seed, and ends the process if that gets no further.
func playGuarded(t *testing.T, seed uint64, out io.Writer) tally {
	var guard *time.Timer
	seen := progress.Load()
	guard = time.AfterFunc(stuckAfter, func() {
		if now := progress.Load(); now != seen { // a busy machine
			seen = now
			guard.Reset(stuckAfter)
			return
		}
		buf := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%s\nseed %d has not got any further for %s\n",
			buf[:runtime.Stack(buf, true)], seed, stuckAfter)
		os.Exit(1)
	})
	defer guard.Stop()
	return play(t, seed, out)
}
