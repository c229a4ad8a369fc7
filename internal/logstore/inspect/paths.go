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
	// extension is .log, .index, .timeindex, .txnindex, .snapshot, or epochFile. A file with the
	// extension epochFile has no base offset.
	extension string
	suffix    string // empty, .cleaned, .swap or .deleted
	whole     bool   // true if the whole directory is read; false if the file itself was named
	// last is true for the last segment of a directory. This is the active segment, whose time
	// index may lack the last entry.
	last bool
}

func (f file) path() string {
	if f.extension == epochFile {
		return filepath.Join(f.dir, epochFile)
	}
	return f.with(f.extension)
}

// with returns the path of the same segment's file with another extension.
func (f file) with(extension string) string {
	return filepath.Join(f.dir, segment.Name(f.base, extension, f.suffix))
}

// extensions lists the extensions of the files that can be read, besides epochFile.
var extensions = []string{
	segment.LogExtension, segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, snapshotExtension,
}

// parseFile determines the type of a file from its name. ok is false if files with this name cannot
// be read.
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

// find returns the segment files that the paths of a command line refer to, in the order of the
// paths. A path is a file, the directory of a partition, a data directory, or a directory of data
// directories (as heartwood dev creates it). For a directory, find returns only the data files
// without a suffix, because only these files belong to the log.
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
			f.last = true // it is unknown whether another segment follows
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

// levelsMax is the number of directory levels below a path that are searched for segments. It is 2
// for a directory of data directories, which contain directories of partitions. Without the limit,
// a mistyped path would make find search a whole disk.
const levelsMax = 2

// findInTree returns the segments in a directory or, if the directory contains no segment, in its
// subdirectories. It skips the directories of partitions that are being deleted, because a missing
// file is not a problem there.
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

// deletedDirectorySuffix is the suffix of a partition's directory that is being deleted
// (docs/internals/format/store.md).
const deletedDirectorySuffix = "-delete"

// findInDir returns the segments and the subdirectories in one directory.
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
			// The entries are sorted by name, and therefore by base offset, which has 20 digits.
			found = append(found, f)
		}
	}
	if len(found) > 0 {
		found[len(found)-1].last = true
	}
	return found, below, nil
}
