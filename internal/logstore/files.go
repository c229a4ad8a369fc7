package logstore

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// Suffixes of a segment's files while it is being replaced or deleted; docs/format/swap.md.
const (
	// Suffixes of a segment's files while it is being replaced or deleted; docs/format/swap.md.
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
	deletedSuffix = ".deleted"
)

// snapshotSuffix is the extension of a producer snapshot, <offset>.snapshot.
const snapshotSuffix = ".snapshot"

// indexKinds are the files that belong to a .log file and can be rebuilt from it; they are renamed
// and removed with it.
var indexKinds = []string{segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, segment.KeysExtension, segment.DeadExtension, keys.SpoolExtension}

// segmentFile is a parsed file name.
type segmentFile struct {
	name   string
	base   int64
	kind   string // segment.LogExtension, one of indexKinds, or snapshotSuffix
	suffix string // "" or one of the suffixes
}

// parseSegmentFile parses a name; ok is false for files that do not belong to a segment, which the
// log does not touch.
func parseSegmentFile(name string) (f segmentFile, ok bool) {
	f.name = name
	if f.base, f.kind, ok = segment.ParseName(name); !ok {
		return f, false
	}
	for _, suffix := range []string{cleanedSuffix, swapSuffix, deletedSuffix} {
		if kind, found := strings.CutSuffix(f.kind, suffix); found {
			f.kind, f.suffix = kind, suffix
			break
		}
	}
	return f, f.isLog() || f.kind == snapshotSuffix || slices.Contains(indexKinds, f.kind)
}

func (f segmentFile) isLog() bool { return f.kind == segment.LogExtension }

// listSegmentFiles returns the segment files of a directory by base, and for each base the .log
// file first. Renaming or removing in this order, or in its reverse by base, keeps the order that
// docs/format/swap.md relies on.
func listSegmentFiles(fsys vfs.FS, dir string) ([]segmentFile, error) {
	files, _, err := listDirectory(fsys, dir)
	return files, err
}

// listDirectory returns the same files as listSegmentFiles, and the names of temporary files: those
// that vfs.WriteFileAtomic did not rename, and spools.
func listDirectory(fsys vfs.FS, dir string) (files []segmentFile, temporary []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list segments: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		if f, ok := parseSegmentFile(entry.Name()); ok {
			files = append(files, f)
		}
		// A spool of keys is both a segment file and a temporary file: it is removed with its
		// segment, and at the latest by the next start, which cannot append to it.
		if strings.HasSuffix(entry.Name(), vfs.TemporarySuffix) {
			temporary = append(temporary, entry.Name())
		}
	}
	slices.SortStableFunc(files, func(a, b segmentFile) int {
		if a.base != b.base {
			return cmp.Compare(a.base, b.base)
		}
		switch {
		case a.isLog() && !b.isLog():
			return -1
		case b.isLog() && !a.isLog():
			return 1
		}
		return 0
	})
	return files, temporary, nil
}

// removeFiles removes the files that match, in the given order, and returns how many it has removed
// before an error. It does not sync the directory: some callers must sync it before they continue,
// others need not.
func removeFiles(fsys vfs.FS, dir string, files []segmentFile,
	matches func(segmentFile) bool) (removed int, err error) {
	for _, f := range files {
		if !matches(f) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, f.name)); err != nil {
			return removed, fmt.Errorf("remove segment file: %w", err)
		}
		removed++
	}
	return removed, nil
}
