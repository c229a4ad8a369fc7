package cleaner

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// passFault is a failure of a filesystem call.
type passFault struct {
	name string
	rule vfs.Rule
	step int // only one in step calls fails, but with -pass.all each call fails once
}

// passFaults lists the failures. With "full disk", all writes fail from the first failure until the
// test clears the fault.
var passFaults = []passFault{
	{"I/O error", vfs.Rule{Times: 1, Err: syscall.EIO}, 100},
	{"full disk", vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC}, 20},
	{"short write", vfs.Rule{Op: vfs.OpWrite, Times: 1, Err: syscall.ENOSPC, WriteBytes: 7}, 20},
	{"no space for a file", vfs.Rule{Op: vfs.OpCreate, Err: syscall.ENOSPC}, 5},
	{"failed rename", vfs.Rule{Op: vfs.OpRename, Times: 1, Err: syscall.EIO}, 10},
	{"failed sync", vfs.Rule{Op: vfs.OpSync, Times: 1, Err: syscall.EIO}, 10},
	{"failed directory sync", vfs.Rule{Op: vfs.OpSyncDir, Times: 1, Err: syscall.EIO}, 5},
}

// TestFaultDuringPass makes any filesystem call of a pass fail with EIO, ENOSPC or a short write.
// The log stays valid and complete, both for current readers and after the next start. The next
// passes succeed once the disk works again (I7, I8, I37, KAFKA-7866).
func TestFaultDuringPass(t *testing.T) {
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, fault := range passFaults {
		calls := 0
		step := fault.step
		if *passAll {
			step = 1
		}
		for skip := random.IntN(step); ; skip += step {
			hit, err := passesWithFault(t, fault, skip)
			if err != nil {
				t.Fatalf("%s at call %d (seed %d): %v", fault.name, skip, seed, err)
			}
			if calls++; !hit {
				break
			}
			if calls > 5000 {
				t.Fatalf("%s: the passes do not end", fault.name)
			}
		}
		t.Logf("%s: %d calls", fault.name, calls-1)
	}
}

// passesWithFault runs the passes, and injects a fault into a matching call after skip other
// matching calls. hit reports whether there was such a call.
func passesWithFault(t *testing.T, fault passFault, skip int) (hit bool, err error) {
	var disk *vfs.Fault
	err = runInScenario(t, func(s *scenario) {
		s.disk = func(mem *vfs.Mem) vfs.FS {
			disk = vfs.NewFault(mem)
			return disk
		}
		s.open()
		s.prepare()
		rule := fault.rule
		rule.Skip = skip
		disk.Inject(rule)
		s.resume()
		s.wait([]string{"30s", "quietly"})
		hit = disk.Failed() > 0
		disk.Clear()
		s.waitIdle()
		s.ledger.check(s)
		s.ledger.checkReads(s)
		s.line = "after the fault"
		// After a failed sync, the log is stopped until the next start.
		if s.log.Fault() != nil {
			s.kill()
		}
		s.runLines(slices.Concat([]string{"config dirty=1"}, passSettle,
			[]string{"restart", "read"}))
	})
	return hit, err
}
