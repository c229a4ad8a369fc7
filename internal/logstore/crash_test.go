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
	crashPoints = flag.Int("crash.points", 400, "number of crashes to take, at least")
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
	crashActs       = 40 // number of random operations of a run before the first crash
	crashActsMore   = 12 // number of random operations after each crash
	// per seed, of some thousand: the next seed does other things
	crashesOfOne = 100
)

// knownCrashSeeds once failed, because of the store:
//
//   - 3000962: it lost producers (ensureForDeletion);
//   - 13000475: deleted records restored a leader epoch (verifyEpochs);
//   - 13000584: a deleted segment returned without its transaction index (frontDeletion.mark);
//
// or because the model demanded too much:
//
//   - 10356817682516520659: the producer state was lost to a full disk and a crash, and the next
//     batch of the producer in the log was a marker (workload.transact);
//   - 3000517: the log ended behind an empty batch that an earlier truncation had appended
//     (partitionModel.filled);
//   - 11000125: a truncation removed such a batch as a whole.
var knownCrashSeeds = []uint64{10356817682516520659, 3000517, 3000962, 11000125, 13000475, 13000584}

// Random work on a store of several partitions, with a power failure at random moments of it. After
// each one the store is opened (with more failures on the way), compared with the model
// (crash_model_test.go), worked on, and interrupted again, up to three times in a row.
//
// A seed gives the same run each time: logs are worked on one after the other, and a background
// sync is awaited before the next act. make crash takes ten thousand crashes and more.
func TestCrashes(t *testing.T) {
	began, points, runs := time.Now(), 0, 0
	_, alone := seed.Single(t)
	for seed := range seed.Sequence(t, math.MaxInt, knownCrashSeeds...) {
		limit := min(*crashPoints-points, crashesOfOne)
		if alone {
			limit = math.MaxInt // the run that failed may have had more crashes left
		}
		run, err := runPlan(t, seed, limit)
		points, runs = points+run.taken-1, runs+1 // the beginning is not a crash
		if err != nil {
			t.Fatal(err)
		}
		if points >= *crashPoints || *crashTime > 0 && time.Since(began) >= *crashTime {
			break
		}
	}
	t.Logf("%d crashes in %d runs, %s", points, runs, time.Since(began).Round(time.Millisecond))
}

// For one seed, everything reaches the disk in the same order: a failure that cannot be repeated is
// hard to find.
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

// newPlan draws the acts of a run.
func newPlan(seed uint64, n int) []act {
	random := rand.New(rand.NewPCG(seed, 0))
	plan := make([]act, n)
	for i := range plan {
		plan[i] = act{partition: random.IntN(crashPartitions), seed: random.Uint64()}
	}
	return plan
}

// runPlan runs a plan on an empty disk, and then follows the crashes that it took, up to the limit.
func runPlan(t *testing.T, seed uint64, limit int) (run crashRun, err error) {
	cryptotest.SetGlobalRandom(t, seed) // of the salts of key sidecars
	// In a bubble: a log reads the clock when it is opened, and must not find its producers
	// expired.
	synctest.Test(t, func(*testing.T) {
		models := make([]*partitionModel, crashPartitions)
		for i := range models {
			models[i] = &partitionModel{id: PartitionID{Topic: "tickets", Index: int32(i)},
				restart: none}
		}
		run = crashRun{chance: rand.New(rand.NewPCG(seed, 2)), limit: limit,
			moments: fnv.New64a()}
		err = run.follow(crashPoint{mem: vfs.NewMem(), models: models, at: "the beginning"},
			newPlan(seed, crashActs), 0)
	})
	return run, err
}

// crashRun is the state of one run and of all its crashes, which depend only on the seed.
type crashRun struct {
	chance       *rand.Rand
	taken, limit int
	moments      hash.Hash64 // hash of all moments
}

// follow opens the disk that a crash left, checks it, continues with a plan, and follows the
// crashes of that plan, depth first.
func (r *crashRun) follow(point crashPoint, plan []act, depth int) error {
	r.taken++
	w := &workload{models: point.models, chance: r.chance, seen: r.moments,
		oneIn: []int{50, 60, 80, 1 << 30}[depth]}
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

// history lists the acts since a crash.
func (w *workload) history(since crashPoint) string {
	separator := ", "
	if *crashTrace {
		separator = "\n\t"
	}
	return since.at + "; then: " + strings.Join(w.trace, separator)
}

// run opens the store, checks it, and acts. A failed check is the error; the store is closed in any
// case.
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
