package cleaner

import (
	"flag"
	"fmt"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

var passAll = flag.Bool("pass.all", false,
	"cut the power at every moment of the passes, and fail every call, instead of some")

// passSetup is a log that has something for every part of a pass: garbage, lonely tombstones with
// their clocks, transactions of both kinds over several segments, codecs, sidecars that are kept
// and such that are not.
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
		if round == 0 { // a pass with .dead files to be replaced
			script = append(script, "roll", "wait 5s quietly")
		}
	}
	return append(script, "roll")
}

// passSettle is what every log comes to in the end, whatever happened to a pass over it.
var passSettle = []string{"put end=1", "roll", "put end=2", "wait 90s quietly", "read", "settled"}

// passCut is the disk after the power went.
type passCut struct {
	mem *vfs.Mem
	at  time.Time
	why string
}

// recordPasses plays the setup, and lets the cleaner pass over it: a pass over what is dirty, and
// one for its tombstones. It returns the disks after power cuts at the moments that take picks, and
// the ledger.
func recordPasses(t *testing.T, seed uint64, take func(what, name string) bool) (cuts []passCut,
	book ledger, err error) {
	err = inStage(t, func(s *stage) {
		on, moments := false, 0
		s.disk = func(mem *vfs.Mem) vfs.FS {
			return &crashDisk{FS: mem, before: func(what, name string) {
				if moments++; !on || !take(what, name) {
					return
				}
				why := fmt.Sprintf("moment %d, %s %s", moments, what, name)
				cuts = append(cuts, passCut{mem.CrashClone(), time.Now(), why},
					passCut{mem.CrashClonePartly(seed + uint64(moments)), time.Now(), why})
			}}
		}
		s.open()
		s.rest()
		book = s.ledger.clone()
		on = true
		s.wake()
		s.do("wait 30s")
		on = false
		if got := s.out.String(); !strings.Contains(got, "2 success") {
			stageFail("these are no two passes: %s", got)
		}
		s.doAll(passSettle)
	})
	return cuts, book, err
}

// rest plays the setup without a second pass, and waits until all is synced: what goes wrong behind
// it is the passes' doing.
func (s *stage) rest() {
	script := passSetup()
	at := slices.Index(script, "wait 5s quietly") + 1
	s.doAll(script[:at])
	s.budget.Workers = -1
	s.cleaner.Configure(s.budget)
	s.doAll(append(script[at:], "wait 3s"))
	s.out.Reset()
	s.at = "the passes"
}

// wake lets the cleaner go on.
func (s *stage) wake() {
	s.budget.Workers = 1
	s.cleaner.Configure(s.budget)
}

// The power goes at a moment of a pass: what a start finds is legal and complete, and the next
// passes do their work.
func TestPowerCutInAPass(t *testing.T) { // I14, I37, I38, F4, F13
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	changed := ""
	cuts, book, err := recordPasses(t, seed, func(what, name string) bool {
		changed += " " + what + ":" + name
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
			t.Errorf("no moment of %s is among them:%s", name, changed)
		}
	}
	if len(cuts) == 0 {
		t.Skip("no moment was picked")
	}
	t.Logf("seed %d: %d power cuts", seed, len(cuts))
	for _, cut := range cuts {
		err := inStage(t, func(s *stage) {
			s.at, s.fsys, s.ledger, s.epoch = cut.why, cut.mem, book.clone(), 100
			s.settings.SegmentBytes, s.settings.TombstoneRetention = 3000, 20*time.Second
			time.Sleep(time.Until(cut.at))
			s.wantEndFrom(s.ledger.end) // all was synced before the pass began
			s.still()
			s.ledger.check(s)
			s.ledger.checkReads(s)
			s.repeat()
			if names := temporaryFiles(stageTB{}, s.fsys); len(names) > 0 {
				stageFail("left over: %v", names)
			}
			s.doAll(passSettle)
		})
		if err != nil {
			t.Fatalf("%s: %v", cut.why, err)
		}
	}
}

// clone is the ledger as it is now.
func (l *ledger) clone() ledger {
	c := newLedger()
	c.batches, c.end, c.start, c.cleanable, c.known = slices.Clip(l.batches), l.end, l.start,
		l.cleanable, l.known
	c.retentionMin, c.truncated = l.retentionMin, l.truncated
	for offset, at := range l.blocked {
		c.blocked[offset] = at
	}
	for offset := range l.lost {
		c.lost[offset] = true
	}
	return c
}
