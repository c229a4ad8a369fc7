package cleaner

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// passFault is how a call on the filesystem fails.
type passFault struct {
	name string
	rule vfs.Rule
	step int // one call of so many is tried, unless -pass.all
}

// passFaults are the ways. Of a full disk all writes behind the first that fails do so too, until
// it is cleared.
var passFaults = []passFault{
	{"an I/O error", vfs.Rule{Times: 1, Err: syscall.EIO}, 100},
	{"a full disk", vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC}, 20},
	{"a short write", vfs.Rule{Op: vfs.OpWrite, Times: 1, Err: syscall.ENOSPC, WriteBytes: 7}, 20},
	{"no room for a file", vfs.Rule{Op: vfs.OpCreate, Err: syscall.ENOSPC}, 5},
	{"a rename that fails", vfs.Rule{Op: vfs.OpRename, Times: 1, Err: syscall.EIO}, 10},
	{"a sync that fails", vfs.Rule{Op: vfs.OpSync, Times: 1, Err: syscall.EIO}, 10},
	{"a directory that is not synced", vfs.Rule{Op: vfs.OpSyncDir, Times: 1, Err: syscall.EIO}, 5},
}

// Some call of a pass fails, whichever: the log stays legal and complete, under the eyes of its
// readers and behind the next start, and the next passes do their work once the disk is well. I7,
// I8, I37, KAFKA-7866: EIO, ENOSPC and short writes at every call
func TestFaultInAPass(t *testing.T) {
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, fault := range passFaults {
		calls := 0
		step := fault.step
		if *passAll {
			step = 1
		}
		for skip := random.IntN(step); ; skip += step {
			hit, err := passWith(t, fault, skip)
			if err != nil {
				t.Fatalf("%s at call %d (seed %d): %v", fault.name, skip, seed, err)
			}
			if calls++; !hit {
				break
			}
			if calls > 5000 {
				t.Fatalf("%s: the passes never end", fault.name)
			}
		}
		t.Logf("%s: %d calls", fault.name, calls-1)
	}
}

// passWith plays the passes with a fault behind so many calls that it fits, and tells whether there
// was such a call.
func passWith(t *testing.T, fault passFault, skip int) (hit bool, err error) {
	var disk *vfs.Fault
	err = inStage(t, func(s *stage) {
		s.disk = func(mem *vfs.Mem) vfs.FS {
			disk = vfs.NewFault(mem)
			return disk
		}
		s.open()
		s.rest()
		rule := fault.rule
		rule.Skip = skip
		disk.Inject(rule)
		s.wake()
		s.wait([]string{"30s", "quietly"})
		hit = disk.Failed() > 0
		disk.Clear()
		s.still()
		s.ledger.check(s)
		s.ledger.checkReads(s)
		s.at = "behind the fault"
		// it stopped, as a log does whose disk failed: only a start brings it back
		if s.log.Fault() != nil {
			s.kill()
		}
		s.doAll(slices.Concat([]string{"config dirty=1"}, passSettle, []string{"restart", "read"}))
	})
	return hit, err
}
