package swap

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// Suffixes of the files of a segment that is being replaced or deleted
// (docs/internals/format/swap.md).
const (
	CleanedSuffix = ".cleaned"
	SwapSuffix    = ".swap"
	DeletedSuffix = ".deleted"
)

// SnapshotSuffix is the extension of a producer snapshot file, <offset>.snapshot.
const SnapshotSuffix = ".snapshot"

// indexKinds lists the extensions of the files that belong to a .log file and can be rebuilt from
// it. These files are renamed and removed together with the .log file.
var indexKinds = []string{segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, segment.KeysExtension, segment.DeadExtension, keys.SpoolExtension}

// File is the parsed name of a file that belongs to a segment or is a producer snapshot.
type File struct {
	Name   string
	Base   int64
	Kind   string // segment.LogExtension, one of indexKinds, or SnapshotSuffix
	Suffix string // empty, or one of the suffixes above
}

// ParseFile parses a file name. ok is false if the file does not belong to a segment; the
// log does not touch such files.
func ParseFile(name string) (f File, ok bool) {
	f.Name = name
	if f.Base, f.Kind, ok = segment.ParseName(name); !ok {
		return f, false
	}
	for _, suffix := range []string{CleanedSuffix, SwapSuffix, DeletedSuffix} {
		if kind, found := strings.CutSuffix(f.Kind, suffix); found {
			f.Kind, f.Suffix = kind, suffix
			break
		}
	}
	return f, f.IsLog() || f.Kind == SnapshotSuffix || slices.Contains(indexKinds, f.Kind)
}

// IsLog reports whether the file is a data file.
func (f File) IsLog() bool { return f.Kind == segment.LogExtension }

// List returns the segment files in a directory in ascending order of their base offsets. Among the
// files with the same base offset, the .log file is first. Callers rename or remove files in this
// order, or in descending order of base offsets; docs/internals/format/swap.md relies on the order.
func List(fsys vfs.FS, dir string) ([]File, error) {
	files, _, err := listDirectory(fsys, dir)
	return files, err
}

// listDirectory returns the same files as List. It also returns the names of the temporary files:
// spools, and files that an interrupted vfs.WriteFileAtomic has not renamed.
func listDirectory(fsys vfs.FS, dir string) (files []File, temporary []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list segments: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		if f, ok := ParseFile(entry.Name()); ok {
			files = append(files, f)
		}
		// A spool is both a segment file and a temporary file. It is removed together with its
		// segment, or by the next start, which cannot continue the spool.
		if isTemporaryFile(entry.Name()) {
			temporary = append(temporary, entry.Name())
		}
	}
	slices.SortStableFunc(files, func(a, b File) int {
		if a.Base != b.Base {
			return cmp.Compare(a.Base, b.Base)
		}
		switch {
		case a.IsLog() && !b.IsLog():
			return -1
		case b.IsLog() && !a.IsLog():
			return 1
		}
		return 0
	})
	return files, temporary, nil
}

// isTemporaryFile reports whether a file is a leftover of vfs.WriteFileAtomic or of a build of a
// sidecar. Recovery removes these files. A file with another name and the same suffix belongs to
// another program.
func isTemporaryFile(name string) bool {
	name, found := strings.CutSuffix(name, vfs.TemporarySuffix)
	if _, _, ofSegment := segment.ParseName(name); !found || ofSegment {
		return found
	}
	return slices.Contains([]string{datadir.PartitionFile, datadir.PolicyFile, datadir.RetainedFile,
		datadir.AssignmentFile, datadir.CopySourceFile, datadir.CopyGapFile, datadir.LossFile,
		checkpoint.EpochsFile, keys.SaltFile}, name)
}

// RemoveFiles removes the files that match, in the given order. It returns the number of files that
// it has removed, even if it fails. It does not sync the directory, because only some callers need
// a sync.
func RemoveFiles(fsys vfs.FS, dir string, files []File,
	matches func(File) bool) (removed int, err error) {
	for _, f := range files {
		if !matches(f) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, f.Name)); err != nil {
			return removed, fmt.Errorf("remove segment file: %w", err)
		}
		removed++
	}
	return removed, nil
}
