package scrub

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// TestRetainedLogsAreChecked releases a log whose data is kept. The log has no damage, and a
// flipped bit in any of its files is found. Nothing is stopped or repaired.
func TestRetainedLogsAreChecked(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for _, kind := range []string{".log", ".index", ".snapshot", "retained"} {
		t.Run(kind, func(t *testing.T) {
			mem := vfs.NewMem()
			f := open(t, mem)
			fill(t, f)
			if err := f.store.ReleaseAll([]logstore.Removal{{ID: events, Retain: true}}); err != nil {
				t.Fatal(err)
			}
			s, _ := start(t, f, func(log *logstore.Log, _ int64) { t.Errorf("%s stopped", log.ID()) })
			awaitRounds(t, s, 2)
			if damaged := s.State().Damaged; len(damaged) > 0 {
				t.Fatalf("damage: %v", damaged)
			}
			all, err := f.store.Retained()
			if err != nil || len(all) != 1 {
				t.Fatalf("%d retained logs, %v", len(all), err)
			}
			name := fileIn(t, mem, filepath.Join(dataDir, all[0].Directory), kind)
			if kind == ".log" || kind == ".index" {
				flip(t, mem, name, random)
			} else {
				flipAny(t, mem, name, random)
			}
			awaitPlace(t, s, name, damaged)
			if len(s.State().Repaired) > 0 {
				t.Errorf("repaired: %v", s.State().Repaired)
			}
		})
	}
}

// fileIn returns the first non-empty file of a kind in a directory.
func fileIn(t *testing.T, fsys vfs.FS, dir, kind string) string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && strings.HasSuffix(entry.Name(), kind) && info.Size() > 0 {
			return filepath.Join(dir, entry.Name())
		}
	}
	t.Fatalf("no file %s in %s", kind, dir)
	return ""
}
