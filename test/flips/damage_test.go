//go:build flips

package flips

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// restMargin is the number of the newest segments of a partition that may not be at rest: the
// active one, and those that may be above the recovery point.
const restMargin = 3

// resting returns the files of the segments at rest in a broker's data directory. A segment that is
// not at rest is checked only once it is.
func resting(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		partition := filepath.Join(dir, entry.Name())
		names, err := os.ReadDir(partition)
		if err != nil {
			continue // removed meanwhile
		}
		var bases []int64
		for _, name := range names {
			if base, found := strings.CutSuffix(name.Name(), ".log"); found {
				if offset, err := strconv.ParseInt(base, 10, 64); err == nil {
					bases = append(bases, offset)
				}
			}
		}
		slices.Sort(bases)
		if len(bases) <= restMargin {
			continue
		}
		limit := bases[len(bases)-restMargin]
		for _, name := range names {
			base, kind, _ := strings.Cut(name.Name(), ".")
			offset, err := strconv.ParseInt(base, 10, 64)
			if err == nil && offset < limit && slices.Contains(kinds, "."+kind) {
				files = append(files, filepath.Join(partition, name.Name()))
			}
		}
	}
	slices.Sort(files)
	return files
}

// kinds are the files of a segment.
var kinds = []string{".log", ".index", ".timeindex", ".txnindex", ".keys", ".dead"}

// damage flips a bit of a file, or truncates it. It returns false if the file is empty or does not
// exist any more. A cleaner may replace the file at the same moment.
func damage(random *rand.Rand, name string, truncate bool) bool {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	position := random.Int64N(info.Size())
	if truncate {
		return file.Truncate(position) == nil
	}
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, position); err != nil {
		return false
	}
	b[0] ^= 1 << random.IntN(8)
	_, err = file.WriteAt(b, position)
	return err == nil
}

// tally counts damaged files by kind.
type tally map[string]int

func (n tally) String() string {
	var text []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		text = append(text, fmt.Sprintf("%s %d", kind, n[kind]))
	}
	return strings.Join(text, ", ")
}
