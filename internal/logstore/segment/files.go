package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"heartwood.dev/heartwood/internal/vfs"
)

// The extensions of a segment's files, in the order in which the files are renamed and removed: the
// data file first. So a crash between these steps can leave indexes without data, which a start
// deletes, but never data without its indexes.
const (
	LogExtension       = ".log"
	IndexExtension     = ".index"
	TimeIndexExtension = ".timeindex"
	// KeysExtension is the extension of the key sidecar (docs/format/keys.md). Package keys writes
	// and reads it; this package renames and removes it with its segment. It is optional.
	KeysExtension = ".keys"
	// DeadExtension is the extension of the cleaner's .dead file (docs/format/dead.md), likewise
	// optional.
	DeadExtension = ".dead"
)

// extensions are the extensions of the files of every segment. The last one is that of the
// transaction index, which only some segments have.
var extensions = []string{LogExtension, IndexExtension, TimeIndexExtension, TxnIndexExtension}

// optionalExtensions are the extensions of further files that a segment may have. These files are
// renamed and removed after the others.
var optionalExtensions = []string{KeysExtension, DeadExtension}

// nameDigits is the length of the base offset in a file's name.
const nameDigits = 20

// Name returns the name of one of a segment's files.
func Name(base int64, extension, suffix string) string {
	return fmt.Sprintf("%0*d%s%s", nameDigits, base, extension, suffix)
}

// ParseName splits a file name into the base offset and the rest, extension and suffix; ok is false
// if the name does not begin with a base offset.
func ParseName(name string) (base int64, rest string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' {
		return 0, "", false
	}
	number, err := strconv.ParseUint(name[:nameDigits], 10, 63)
	return int64(number), name[nameDigits:], err == nil
}

// RemoveFiles deletes the existing files of the segment with that base and suffix, open or not. The
// directory is not synced.
func RemoveFiles(fsys vfs.FS, dir string, base int64, suffix string) error {
	return removeFiles(fsys, dir, base, suffix, extensions)
}

func removeFiles(fsys vfs.FS, dir string, base int64, suffix string, extensions []string) error {
	for _, extension := range slices.Concat(extensions, optionalExtensions) {
		name := filepath.Join(dir, Name(base, extension, suffix))
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove segment file: %w", err)
		}
	}
	return nil
}

// renameFiles gives the files of a segment another suffix. It completes a rename that an earlier
// call has begun: a file that does not exist under the old name is skipped. The directory is not
// synced.
func (s *Segment) renameFiles(from, to string) error {
	for _, extension := range slices.Concat(s.extensions(), optionalExtensions) {
		oldName := filepath.Join(s.dir, Name(s.base, extension, from))
		err := s.fsys.Rename(oldName, filepath.Join(s.dir, Name(s.base, extension, to)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rename segment file: %w", err)
		}
	}
	return nil
}
