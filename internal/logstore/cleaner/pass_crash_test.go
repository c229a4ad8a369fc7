package cleaner

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

var passAll = flag.Bool("pass.all", false,
	"cut the power at every step of the passes, and fail every call, instead of some")

// passSetup returns a script that creates a log with everything that a pass handles: garbage,
// tombstones whose retention has begun, committed and aborted transactions over several segments,
// and all codecs. Some segments have sidecars and some do not.
func passSetup() []string {
	script := []string{"config segment=3000 retention=20s"}
	for round := range 2 {
		script = append(script,
			fmt.Sprintf("put -producer=1 a=%d*300 b=%d*300 c", round, round),
			fmt.Sprintf("put -zstd -producer=2 -txn d=%d*300 e", round),
			fmt.Sprintf("put -gzip -producer=3 -txn a=%d*300 f=%d*300", round, round),
			"roll",
			fmt.Sprintf("put -lz4 g=%d*300 h=1*300 b", round),
			"commit 2", "abort 3", "roll",
			fmt.Sprintf("put -snappy i=%d*300 c=%d*300 unique%d=1*1500", round, round, round),
			"put -producer=3 -txn i=1", "commit 3", "roll", "put j=1 k",
		)
		if round == 0 { // run a pass here, because later passes then have to replace .dead files
			script = append(script, "roll", "wait 5s quietly")
		}
	}
	return append(script, "roll")
}

// passSettle contains the last lines of each run. After them the log must be in its final state,
// whatever has happened to the passes.
var passSettle = []string{"put end=1", "roll", "put end=2", "wait 90s quietly", "read", "settled"}

// powerCut is the disk after a power cut, with the time and the reason of the power cut.
type powerCut struct {
	mem    *vfs.Mem
	moment time.Time
	why    string
}

// collectPowerCuts runs the setup and three passes: one over the dirty section, one for the markers
// that the setup's pass has made removable, and one for tombstones. It returns the ledger at the
// start of the passes, and the disks after power cuts before each step for which take returns true.
func collectPowerCuts(t *testing.T, seed uint64, take func(op, name string) bool) (cuts []powerCut,
	book ledger, err error) {
	err = runInScenario(t, func(s *scenario) {
		var mu sync.Mutex // passes and the builds of sidecars run concurrently
		on, steps := false, 0
		collect := func(next bool) {
			mu.Lock()
			defer mu.Unlock()
			on = next
		}
		s.disk = func(mem *vfs.Mem) vfs.FS {
			return &storetest.Disk{FS: mem, Step: func(op, name string) {
				mu.Lock()
				defer mu.Unlock()
				if steps++; !on || !take(op, name) {
					return
				}
				why := fmt.Sprintf("step %d, %s %s", steps, op, name)
				cuts = append(cuts, powerCut{mem.CrashClone(), time.Now(), why},
					powerCut{mem.CrashClonePartly(seed + uint64(steps)), time.Now(), why})
			}}
		}
		s.open()
		s.prepare()
		book = s.ledger.clone()
		collect(true)
		s.resume()
		s.runLine("wait 30s")
		collect(false)
		if got := s.out.String(); !strings.Contains(got, "3 success") {
			fail("want three passes: %s", got)
		}
		s.runLines(passSettle)
	})
	return cuts, book, err
}

// prepare runs the setup with only one pass, and waits until everything is synced. If records are
// lost later, the following passes have caused it.
func (s *scenario) prepare() {
	script := passSetup()
	index := slices.Index(script, "wait 5s quietly") + 1
	s.runLines(script[:index])
	s.budget.Workers = -1
	s.cleaner.Configure(s.budget)
	s.runLines(append(script[index:], "wait 3s"))
	s.out.Reset()
	s.line = "the passes"
}

// resume enables the cleaner.
func (s *scenario) resume() {
	s.budget.Workers = 1
	s.cleaner.Configure(s.budget)
}

// TestPowerCutDuringPass cuts the power at any step of a pass. After the next start the log is
// valid and complete, and the next passes succeed.
func TestPowerCutDuringPass(t *testing.T) { // I14, I37, I38, F4, F13
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	changed := ""
	cuts, book, err := collectPowerCuts(t, seed, func(op, name string) bool {
		changed += " " + op + ":" + name
		return *passAll || random.IntN(40) == 0
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"write:.*dead", "rename:.*dead", "write:.*keys", "sync:.*keys", "rename:.*cleaned",
		"sync:.*log.cleaned", "remove:.*deleted", "synced-dir:data/",
		"rename:.*" + checkpoint.HorizonFile, "rename:.*" + checkpoint.FirstDirtyFile,
		"rename:.*" + checkpoint.CleaningFile,
	} {
		if !regexp.MustCompile(name).MatchString(changed) {
			t.Errorf("no step of %s in:%s", name, changed)
		}
	}
	if len(cuts) == 0 {
		t.Skip("no step was selected")
	}
	t.Logf("seed %d: %d power cuts", seed, len(cuts))
	for _, cut := range cuts {
		err := runInScenario(t, func(s *scenario) {
			s.line, s.fsys, s.ledger, s.epoch = cut.why, cut.mem, book.clone(), 100
			s.settings.SegmentBytes, s.settings.TombstoneRetention = 3000, 20*time.Second
			time.Sleep(time.Until(cut.moment))
			s.openAndCheckEnd(s.ledger.end) // everything was synced before the pass
			s.waitIdle()
			s.ledger.check(s)
			s.ledger.checkReads(s)
			s.resendLast()
			if names := temporaryFiles(scenarioTB{}, s.fsys); len(names) > 0 {
				fail("temporary files left: %v", names)
			}
			s.runLines(passSettle)
		})
		if err != nil {
			t.Fatalf("%s: %v", cut.why, err)
		}
	}
}

// clone returns a copy of the ledger.
func (l *ledger) clone() ledger {
	c := newLedger()
	c.batches, c.end, c.start, c.cleanable, c.passEnd = slices.Clip(l.batches), l.end, l.start,
		l.cleanable, l.passEnd
	c.retentionMin, c.truncated = l.retentionMin, l.truncated
	for offset, moment := range l.blockedUntil {
		c.blockedUntil[offset] = moment
	}
	for offset := range l.lost {
		c.lost[offset] = true
	}
	return c
}
