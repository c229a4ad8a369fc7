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

// The extensions of a segment's files, in the order in which they are renamed and removed: data
// first. A crash between them then leaves indexes without data, which start-up deletes, and never
// data without a part of its name.
const (
	LogExtension       = ".log"
	IndexExtension     = ".index"
	TimeIndexExtension = ".timeindex"
	// KeysExtension is that of the key sidecar (docs/format/keys.md). Others make and read it; here
	// it only goes where its segment goes. A segment may have none.
	KeysExtension = ".keys"
	// DeadExtension is that of what a pass of the cleaner found (docs/format/dead.md); likewise.
	DeadExtension = ".dead"
)

// extensions end with the one that only some segments have.
var extensions = []string{LogExtension, IndexExtension, TimeIndexExtension, TxnIndexExtension}

// optionalExtensions are those of files that a segment may have; they are renamed and removed
// behind the others.
var optionalExtensions = []string{KeysExtension, DeadExtension}

// nameDigits is the length of the base offset in a file's name.
const nameDigits = 20

// Name returns the name of one of a segment's files.
func Name(base int64, extension, suffix string) string {
	return fmt.Sprintf("%0*d%s%s", nameDigits, base, extension, suffix)
}

// ParseName takes a file name apart; ok is false if it does not begin with a base offset. The rest
// is extension and suffix.
func ParseName(name string) (base int64, rest string, ok bool) {
	if len(name) <= nameDigits || name[nameDigits] != '.' {
		return 0, "", false
	}
	number, err := strconv.ParseUint(name[:nameDigits], 10, 63)
	return int64(number), name[nameDigits:], err == nil
}

// RemoveFiles deletes all files of the segment with that base and suffix, whether they are open or
// not and whether all are there or not. The directory is not synced.
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

// renameFiles gives the files of a segment another suffix. It ends what an earlier call began: a
// file that is not there under the old name is passed over. The directory is not synced.
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
