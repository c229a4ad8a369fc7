package inspect

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// file is one file of a segment.
type file struct {
	dir  string
	base int64
	// .log, .index, .timeindex, .txnindex, .snapshot, or epochFile, which has no base offset
	extension string
	suffix    string // "" or .cleaned, .swap, .deleted
	whole     bool   // found by listing its directory, not named itself
	last      bool   // of its directory: the active segment, which has no final time index entry
}

func (f file) path() string {
	if f.extension == epochFile {
		return filepath.Join(f.dir, epochFile)
	}
	return f.with(f.extension)
}

// with returns the path of another file of the same segment.
func (f file) with(extension string) string {
	return filepath.Join(f.dir, segment.Name(f.base, extension, f.suffix))
}

// extensions of the files that can be read.
var extensions = []string{
	segment.LogExtension, segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, snapshotExtension,
}

// parseFile determines the type of a file from its name; ok is false if it cannot be read.
func parseFile(path string) (f file, ok bool) {
	if filepath.Base(path) == epochFile {
		return file{dir: filepath.Dir(path), extension: epochFile}, true
	}
	base, rest, ok := segment.ParseName(filepath.Base(path))
	if !ok {
		return file{}, false
	}
	for _, extension := range extensions {
		suffix, found := strings.CutPrefix(rest, extension)
		if found && slices.Contains([]string{"", ".cleaned", ".swap", ".deleted"}, suffix) {
			return file{dir: filepath.Dir(path), base: base, extension: extension, suffix: suffix},
				true
		}
	}
	return file{}, false
}

// find resolves the paths of a command line to segment files in order. A path is a file, the
// directory of a partition, a data directory, or a directory of data directories (as `heartwood
// dev` makes). Of a directory, find returns only the data files without a suffix, which are the
// log.
func find(fsys vfs.FS, paths []string) ([]file, error) {
	var all []file
	for _, path := range paths {
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("stat %s: %w", path, err)
		}
		if !info.IsDir() {
			f, ok := parseFile(path)
			if !ok {
				return nil, fmt.Errorf("%s is not a segment file: want a name like %s", path,
					segment.Name(0, segment.LogExtension, ""))
			}
			f.last = true // a following segment is not known
			all = append(all, f)
			continue
		}
		found, err := findInTree(fsys, path, levelsMax)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s contains no segment: want the directory of a partition, "+
				"a data directory, or a directory of data directories", path)
		}
		all = append(all, found...)
	}
	return all, nil
}

// levelsMax is the depth of the search for segments: directory of data directories, data directory,
// partition. The limit keeps a mistyped path from searching a whole disk.
const levelsMax = 2

// findInTree lists the segments of a directory or, if it has none, those of its subdirectories. It
// skips directories that are being deleted, where missing files are no damage, unless they are
// named themselves.
func findInTree(fsys vfs.FS, dir string, levels int) ([]file, error) {
	found, below, err := findInDir(fsys, dir)
	if err != nil || len(found) > 0 || levels == 0 {
		return found, err
	}
	for _, sub := range below {
		if strings.HasSuffix(sub, deletedDirectorySuffix) {
			continue
		}
		inSub, err := findInTree(fsys, sub, levels-1)
		if err != nil {
			return nil, err
		}
		found = append(found, inSub...)
	}
	return found, nil
}

// deletedDirectorySuffix is the suffix of the directory of a partition that is being deleted
// (docs/format/store.md).
const deletedDirectorySuffix = "-delete"

// findInDir lists the segments and the subdirectories of one directory.
func findInDir(fsys vfs.FS, dir string) (found []file, below []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() {
			below = append(below, path)
			continue
		}
		if f, ok := parseFile(path); ok && f.extension == segment.LogExtension && f.suffix == "" {
			f.whole = true
			found = append(found, f) // sorted by name, and 20 digits sort as numbers
		}
	}
	if len(found) > 0 {
		found[len(found)-1].last = true
	}
	return found, below, nil
}
