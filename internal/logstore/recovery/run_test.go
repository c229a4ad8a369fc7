package recovery

import (
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/segmenttest"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// run recovers the log in the directory.
func run(t *testing.T, dir swap.Dir, saved checkpoint.State) Found {
	t.Helper()
	found, err := Run(Input{FS: dir.FS, Dir: dir.Path, Logger: dir.Logger, Segments: dir.Config,
		Active: dir.Config, Saved: saved, Now: storetest.Start})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, h := range found.Handles {
			_ = h.Close()
		}
	})
	return found
}

// crashed returns the directory of a log after a crash. The log has three segments of two records.
func crashed(t *testing.T) (*vfs.Mem, swap.Dir) {
	t.Helper()
	mem := vfs.NewMem()
	two := [][]byte{nil, nil}
	segmenttest.Segments(t, segmenttest.Dir(t, mem), two, two, two)
	mem = mem.CrashClone()
	return mem, segmenttest.Dir(t, mem)
}

func TestEmptyDirectoryIsALog(t *testing.T) {
	found := run(t, segmenttest.Dir(t, vfs.NewMem()),
		checkpoint.State{RecoveryPoint: checkpoint.UnknownOffset})
	if len(found.Handles) != 1 || found.LogStart != 0 || found.End != 0 || found.HighWatermark != 0 {
		t.Errorf("found %+v", found)
	}
}

// TestSavedOffsetsAreLimitedToTheLog checks that offsets in the checkpoint that are outside the log
// are limited to the log's range.
func TestSavedOffsetsAreLimitedToTheLog(t *testing.T) {
	_, dir := crashed(t)
	found := run(t, dir, checkpoint.State{HighWatermark: 90, LogStart: 1})
	if found.LogStart != 1 || found.HighWatermark != 6 || found.End != 6 || len(found.Handles) != 3 {
		t.Errorf("found %+v", found)
	}
}

// TestLogEndsAtTheFirstFault checks that above the recovery point, the log ends at the first gap or
// damaged batch.
func TestLogEndsAtTheFirstFault(t *testing.T) {
	data := func(base int64) string {
		return filepath.Join(segmenttest.Path, segment.Name(base, segment.LogExtension, ""))
	}
	for name, test := range map[string]struct {
		change func(mem *vfs.Mem) error
		end    int64
	}{
		"nothing":           {func(*vfs.Mem) error { return nil }, 6},
		"a missing segment": {func(mem *vfs.Mem) error { return mem.Remove(data(2)) }, 2},
		"a torn batch": {func(mem *vfs.Mem) error {
			content, err := mem.ReadFile(data(4))
			if err != nil {
				return err
			}
			return vfs.WriteFileAtomic(mem, data(4), content[:len(content)-3])
		}, 5},
		"a flipped bit": {func(mem *vfs.Mem) error {
			content, err := mem.ReadFile(data(2))
			if err != nil {
				return err
			}
			content[len(content)/4] ^= 1
			return vfs.WriteFileAtomic(mem, data(2), content)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			mem, dir := crashed(t)
			if err := test.change(mem); err != nil {
				t.Fatal(err)
			}
			found := run(t, dir, checkpoint.State{HighWatermark: 6})
			last := found.Handles[len(found.Handles)-1]
			if found.End != test.end || last.NextOffset() != test.end {
				t.Errorf("the log ends at %d, its last segment at %d, want %d", found.End,
					last.NextOffset(), test.end)
			}
		})
	}
}
