package inspect

import (
	"bytes"
	"cmp"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// dataDirectory returns a copy of a data directory that a broker has written, with a .dead file and
// the cleaner's reports.
func dataDirectory(t *testing.T) *vfs.Mem {
	t.Helper()
	const source = "../testdata/level-1"
	mem := vfs.NewMem()
	must(t, filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		to := "/data" + strings.TrimPrefix(path, source)
		if err != nil || entry.IsDir() {
			return cmp.Or(err, mem.MkdirAll(to))
		}
		content, err := os.ReadFile(path)
		return cmp.Or(err, vfs.WriteFileAtomic(mem, to, content))
	}))
	log, err := mem.ReadFile("/data/tickets-0/00000000000000000000.log")
	must(t, err)
	dead := clean.DeadFile{Binding: clean.Binding{LogBytes: int64(len(log)), Records: 180}}
	must(t, vfs.WriteFileAtomic(mem, "/data/tickets-0/00000000000000000000.dead", dead.Encode()))
	for _, name := range []string{"cleaner-history", "cleaner-history.1", "cleaner-totals"} {
		must(t, vfs.WriteFileAtomic(mem, "/data/"+name,
			[]byte("{\"id\":1}\n\x00\x00\n{\"id\":2}\n{\"id\"")))
	}
	return mem
}

func TestVerifyAcceptsAHealthyDataDirectory(t *testing.T) {
	if problems, out := verify(t, dataDirectory(t), "/data"); problems != 0 {
		t.Errorf("got %d problems, want 0:\n%s", problems, out)
	}
}

// TestVerifyFindsFlippedBits checks that Verify finds single flipped bits in each file that has a
// checksum or binary entries, and a bit flip that makes any other file malformed.
func TestVerifyFindsFlippedBits(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	const segment = "/data/tickets-0/00000000000000000000"
	for name, positions := range map[string][]int{
		segment + ".dead": nil, segment + ".keys": nil, segment + ".index": nil,
		segment + ".timeindex":                          {0, 6, 7},
		"/data/tickets-0/00000000000000000180.snapshot": nil,
		"/data/tickets-0/key-salt":                      nil,
		"/data/segment-checkpoint":                      nil,
		"/data/tickets-0/leader-epoch-checkpoint":       {0, 2},
		"/data/recovery-point-offset-checkpoint":        {0, 2},
		"/data/replication-offset-checkpoint":           {0, 2},
		"/data/cleaner-offset-checkpoint":               {0, 2},
		"/data/tombstone-horizon-checkpoint":            {0, 2},
		"/data/tombstone-agreement-checkpoint":          {0, 2},
		"/data/log-start-offset-checkpoint":             {0, 2},
		"/data/cleaner-history":                         {0, 1},
		"/data/cleaner-history.1":                       {0, 1},
		"/data/cleaner-totals":                          {0, 1},
		segment + ".log":                                {8, 16, 17, 21, 22, 61, 100, 500},
		"/data/events-0/00000000000000000200.snapshot":  nil,
		"/data/events-0/00000000000000000000.timeindex": {0, 6, 7},
		"/data/events-0/leader-epoch-checkpoint":        {0, 2},
	} {
		mem := dataDirectory(t)
		content, err := mem.ReadFile(name)
		must(t, err)
		for range 40 {
			if len(content) > 0 && len(positions) < 40 && positionsAreRandom(name) {
				positions = append(positions, random.IntN(len(content)))
			}
		}
		for _, position := range positions {
			damaged := bytes.Clone(content)
			damaged[position] ^= 1 << random.IntN(7)
			must(t, vfs.WriteFileAtomic(mem, name, damaged))
			if problems, out := verify(t, mem, "/data"); problems == 0 {
				t.Errorf("%s: byte %d changed from %#x to %#x: no problem found:\n%s", name,
					position, content[position], damaged[position], out)
			}
		}
	}
}

// positionsAreRandom reports whether Verify must find a flipped bit anywhere in the file. In a time
// index, the offset of any record of the batch is valid.
func positionsAreRandom(name string) bool {
	return !strings.Contains(name, "-offset-") && !strings.HasPrefix(name, "/data/cleaner-") &&
		!strings.Contains(name, "tombstone-") && !strings.HasSuffix(name, ".log") &&
		!strings.HasSuffix(name, ".timeindex") &&
		!strings.HasSuffix(name, "leader-epoch-checkpoint")
}
