package logstore

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

// Suffixes of the files of a segment that is being replaced or deleted (docs/format/swap.md).
const (
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
	deletedSuffix = ".deleted"
)

// snapshotSuffix is the extension of a producer snapshot file, <offset>.snapshot.
const snapshotSuffix = ".snapshot"

// indexKinds are the extensions of the files that belong to a .log file and can be rebuilt from it.
// These files are renamed and removed together with the .log file.
var indexKinds = []string{segment.IndexExtension, segment.TimeIndexExtension,
	segment.TxnIndexExtension, segment.KeysExtension, segment.DeadExtension, keys.SpoolExtension}

// segmentFile is the parsed name of a file that belongs to a segment or is a producer snapshot.
type segmentFile struct {
	name   string
	base   int64
	kind   string // segment.LogExtension, one of indexKinds, or snapshotSuffix
	suffix string // "" or one of the suffixes above
}

// parseSegmentFile parses a file name. ok is false if the file does not belong to a segment; the
// log does not touch such files.
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

// listSegmentFiles returns the segment files of a directory in ascending order of their base
// offsets. Of the files with the same base offset, the .log file is first. Callers that rename or
// remove files use this order, or descending base offsets; docs/format/swap.md relies on it.
func listSegmentFiles(fsys vfs.FS, dir string) ([]segmentFile, error) {
	files, _, err := listDirectory(fsys, dir)
	return files, err
}

// listDirectory returns the same files as listSegmentFiles. It also returns the names of the
// temporary files: spools, and files that an interrupted vfs.WriteFileAtomic did not rename.
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
		// A spool is both a segment file and a temporary file. It is removed together with its
		// segment, or else by the next start, which cannot continue the spool.
		if isTemporaryFile(entry.Name()) {
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

// isTemporaryFile reports whether a file is a leftover of vfs.WriteFileAtomic or of a build of a
// sidecar. Recovery removes these files. A file with another name and the same suffix belongs to
// somebody else.
func isTemporaryFile(name string) bool {
	name, found := strings.CutSuffix(name, vfs.TemporarySuffix)
	if _, _, ofSegment := segment.ParseName(name); !found || ofSegment {
		return found
	}
	return slices.Contains([]string{datadir.PartitionFile, datadir.PolicyFile, datadir.RetainedFile,
		datadir.AssignmentFile,
		datadir.CopySourceFile, datadir.CopyGapFile, checkpoint.EpochsFile, keys.SaltFile}, name)
}

// removeFiles removes the files that match, in the given order. It returns the number of files that
// it has removed, also if it fails. It does not sync the directory, because only some callers need
// that.
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
