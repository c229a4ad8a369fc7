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

// The extensions of a segment's files. The files are renamed and removed in the order of this list,
// the data file first. So a crash between two steps can leave indexes without data, which a start
// deletes, but never data without indexes.
const (
	LogExtension       = ".log"
	IndexExtension     = ".index"
	TimeIndexExtension = ".timeindex"
	// KeysExtension is the extension of the key sidecar (docs/internals/format/keys.md). Package keys
	// writes and reads it; this package renames and removes it with its segment. The file is optional.
	KeysExtension = ".keys"
	// DeadExtension is the extension of the cleaner's .dead file (docs/internals/format/dead.md). This
	// file is optional, too.
	DeadExtension = ".dead"
)

// extensions lists the extensions of a segment's files. Only some segments have the last file, the
// transaction index.
var extensions = []string{LogExtension, IndexExtension, TimeIndexExtension, TxnIndexExtension}

// optionalExtensions lists the extensions of optional files of a segment. These files are renamed
// and removed after the files with the extensions in extensions.
var optionalExtensions = []string{KeysExtension, DeadExtension}

// nameDigits is the number of digits of the base offset in a file's name.
const nameDigits = 20

// Name returns the name of a segment's file with the given extension and suffix.
func Name(base int64, extension, suffix string) string {
	return fmt.Sprintf("%0*d%s%s", nameDigits, base, extension, suffix)
}

// ParseName splits a file name into the base offset and the remaining text, which is the extension
// and the suffix. ok is false if the name does not begin with a base offset.
func ParseName(name string) (base int64, rest string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' {
		return 0, "", false
	}
	number, err := strconv.ParseUint(name[:nameDigits], 10, 63)
	return int64(number), name[nameDigits:], err == nil
}

// RemoveFiles deletes the existing files of the segment with the given base offset and suffix, even
// if they are open. It does not sync the directory.
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

// renameFiles replaces the suffix of the segment's files. It also completes a rename that an
// earlier call has begun: it skips files that do not exist under the old name. It does not sync the
// directory.
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
