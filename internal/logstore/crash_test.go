package logstore

import (
	"flag"
	"fmt"
	"hash"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

var (
	crashPoints = flag.Int("crash.points", 400, "minimum number of crashes to test")
	crashTrace  = flag.Bool(
		"crash.trace",
		false,
		"after a failure, print the disk and the logs after each act, and what the store logged",
	)
	crashTime = flag.Duration("crash.time", 0,
		"start no new run of the crash test after this time; 0: no limit")
)

const (
	crashPartitions = 3
	crashActs       = 40 // number of random operations of a run on the empty disk
	crashActsMore   = 12 // number of random operations after each simulated crash
	// number of crashes tested per seed, out of some thousand possible crashes: another seed finds
	// new states sooner than more crashes of the same seed
	crashesOfOne = 100
)

// knownCrashSeeds lists seeds whose runs once failed. Every test run repeats them. Some of them
// failed because of a fault in the store:
//
//   - 3000962: the store lost the state of producers (ensureForDeletion);
//   - 13000475: deleted records restored a leader epoch (verifyEpochs);
//   - 13000584: a deleted segment returned without its transaction index (frontDeletion.mark);
//   - 10356817682516520873: a repeated DeleteBefore did not write the log start (Log.savedStart);
//   - 50000110: the file "retained" of a reopened log returned (removeRetainedFiles);
//   - 40000037: a pass removed records below a log start that was not on disk (deletedBelow).
//
// The others failed because the model was too strict:
//
//   - 10356817682516520659: the producer state was lost to a full disk and a crash, and the next
//     batch of the producer in the log was a marker (workload.transact);
//   - 3000517: the log ended after an empty batch that an earlier truncation had appended
//     (partitionModel.filled);
//   - 11000125: a truncation removed such a batch as a whole;
//   - 10356817682516520330: records were deleted while the disk was full, and a crash lost all
//     records above them (partitionModel.emptied).
//
// Seed 3000517 failed once more when DeleteBefore rolled the log before its flush. The model
// assumed that a leader epoch was saved because a higher epoch had been saved earlier, which
// StartAt had removed (partitionModel.epochsSaved).
var knownCrashSeeds = []uint64{10356817682516520659, 3000517, 3000962, 11000125, 13000475, 13000584,
	10356817682516520330, 10356817682516520873, 40000037,
	50000110}

// TestCrashes applies random operations to a store with several partitions, and simulates power
// failures at random moments. After each power failure it opens the store on the remaining disk and
// compares the store with the model (crash_model_test.go). It then continues with more operations
// and power failures, up to three in a row.
//
// A seed gives the same run each time, because the operations run one after the other, and each
// waits for the background syncs of the previous operation. `make crash` tests ten thousand crashes
// and more.
func TestCrashes(t *testing.T) {
	began, points, runs := time.Now(), 0, 0
	_, alone := seed.Single(t)
	for seed := range seed.Sequence(t, math.MaxInt, knownCrashSeeds...) {
		limit := min(*crashPoints-points, crashesOfOne)
		if alone {
			limit = math.MaxInt // the failed run may have had a larger limit
		}
		run, err := runPlan(t, seed, limit)
		points, runs = points+run.taken-1, runs+1 // the first one is the empty disk, not a crash
		if err != nil {
			t.Fatal(err)
		}
		if points >= *crashPoints || *crashTime > 0 && time.Since(began) >= *crashTime {
			break
		}
	}
	t.Logf("%d crashes in %d runs, %s", points, runs, time.Since(began).Round(time.Millisecond))
}

// TestCrashRunsAreRepeatable checks that runs with the same seed change the disk in the same order.
// Otherwise a failure could not be repeated, and its cause would be hard to find.
func TestCrashRunsAreRepeatable(t *testing.T) {
	var moments []uint64
	for range 3 {
		run, err := runPlan(t, 5, 20)
		if err != nil {
			t.Fatal(err)
		}
		moments = append(moments, run.moments.Sum64())
	}
	if moments[0] != moments[1] || moments[0] != moments[2] {
		t.Errorf("three runs in different orders: %x", moments)
	}
}

// newPlan returns n random acts.
func newPlan(seed uint64, n int) []act {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := make([]act, n)
	for i := range plan {
		plan[i] = act{partition: random.IntN(crashPartitions), seed: random.Uint64()}
	}
	return plan
}

// runPlan runs a plan on an empty disk. It then tests the crashes that occurred during the plan,
// and the crashes that occurred during these tests, until it has tested limit crashes.
func runPlan(t *testing.T, seed uint64, limit int) (run crashRun, err error) {
	cryptotest.SetGlobalRandom(t, seed) // for the salts of key sidecars
	// Run in a synctest bubble: an opened log reads the clock, and with the real time it would
	// expire the producers.
	synctest.Test(t, func(*testing.T) {
		models := make([]*partitionModel, crashPartitions)
		for i := range models {
			models[i] = &partitionModel{id: PartitionID{Topic: "tickets", Index: int32(i)},
				restart: none}
		}
		run = crashRun{chance: rand.New(rand.NewPCG(seed, 2)), limit: limit,
			moments: fnv.New64a()}
		err = run.follow(crashPoint{mem: vfs.NewMem(), models: models, name: "the beginning"},
			newPlan(seed, crashActs), 0)
	})
	return run, err
}

// crashRun is the state of one run and of all crashes tested in it. It depends only on the seed.
type crashRun struct {
	chance       *rand.Rand
	taken, limit int
	moments      hash.Hash64 // hash of all moments' names, to compare runs
}

// follow opens the store on the disk that a crash left, checks it and runs a plan on it. It then
// does the same, depth first, for each crash that occurred during the plan.
func (r *crashRun) follow(point crashPoint, plan []act, depth int) error {
	r.taken++
	w := &workload{models: point.models, chance: r.chance, seen: r.moments,
		oneIn: []int{50, 60, 80, 1 << 30}[depth]}
	if len(plan) > 0 {
		w.indexEntries = int(plan[0].seed % 2)
	}
	w.disk = newCrashDisk(point.mem, w.moment)
	w.fault = vfs.NewFault(w.disk)
	if err := w.run(plan); err != nil {
		return fmt.Errorf("%w\nafter a crash at %s", err, w.history(point))
	}
	r.chance.Shuffle(len(w.crashes),
		func(i, j int) { w.crashes[i], w.crashes[j] = w.crashes[j], w.crashes[i] })
	for _, next := range w.crashes {
		if r.taken > r.limit {
			return nil
		}
		if err := r.follow(next, newPlan(r.chance.Uint64(), crashActsMore), depth+1); err != nil {
			return fmt.Errorf("%w\nbefore it: crash at %s", err, w.history(point))
		}
	}
	return nil
}

// history returns the acts since a crash, for the failure report.
func (w *workload) history(since crashPoint) string {
	separator := ", "
	if *crashTrace {
		separator = "\n\t"
	}
	return since.name + "; then: " + strings.Join(w.trace, separator)
}

// run opens the store, checks it, and runs the plan's acts. It returns a failed check as an error.
// It always closes the store.
func (w *workload) run(plan []act) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			found, ok := failure.(crashFailure)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("%s", found.text)
			w.disk.Step = func(string, string) {}
			w.disk.acting.TryLock()
			w.disk.acting.Unlock()
			w.freeSpace()
			if w.store != nil {
				_ = w.store.Close()
			}
		}
	}()
	w.note("found")
	w.open()
	w.note("opened")
	w.checkAll()
	for _, a := range plan {
		w.do(a)
	}
	w.verifyClosed()
	return nil
}
