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
	// .log, .index, .timeindex, .txnindex, .snapshot; or epochFile, which has no base
	extension string
	suffix    string // "" or .cleaned, .swap, .deleted
	whole     bool   // found in its directory, with all the others: not named alone
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

// extensions of the files that can be looked into.
var extensions = []string{
	segment.LogExtension, segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, snapshotExtension,
}

// parseFile tells what a file is by its name; ok is false if it is none that can be looked into.
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

// find resolves the paths of a command line, each a file, a partition's directory, a data directory
// or a directory of those (what `heartwood dev` makes), to segment files in order. Of a directory
// only data files without a suffix are taken: the log itself.
func find(fsys vfs.FS, paths []string) ([]file, error) {
	var all []file
	for _, path := range paths {
		info, err := fsys.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
		if !info.IsDir() {
			f, ok := parseFile(path)
			if !ok {
				return nil, fmt.Errorf("%s is no segment file: want a name like %s", path,
					segment.Name(0, segment.LogExtension, ""))
			}
			f.last = true // nothing is known of a segment that follows
			all = append(all, f)
			continue
		}
		found, err := findInTree(fsys, path, levelsMax)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf(
				"%s holds no segment: want a partition's directory, a data directory or a directory of those",
				path,
			)
		}
		all = append(all, found...)
	}
	return all, nil
}

// levelsMax is how many levels below a path segments are looked for: directory of data directories,
// data directory, partition. No more: a path that was mistyped shall not send us through a whole
// disk.
const levelsMax = 2

// findInTree lists the segments of a directory, or, if it has none, those of the directories below
// it. Directories that are being deleted are left out: what is missing there is no damage. Who
// wants to see one names it.
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

// deletedDirectorySuffix ends the name of a partition's directory that is being deleted
// (docs/format/store.md).
const deletedDirectorySuffix = "-delete"

// findInDir lists the segments of one directory, and the directories below it.
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
