package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/version"
	"heartwood.dev/heartwood/internal/vfs"
)

// FormatLevelFile is a file in the data directory; see docs/internals/format/format-level.md.
const FormatLevelFile = "format-level"

// ErrFormatLevel is wrapped by errors about a format level that this binary does not support.
var ErrFormatLevel = errors.New("this version of Heartwood is too old")

// CheckFormatLevel returns an error if this binary does not support a format level.
func CheckFormatLevel(level int32) error {
	if supported := version.FormatLevel(); level > supported {
		return fmt.Errorf("format level %d: %w: it supports levels up to %d", level, ErrFormatLevel,
			supported)
	}
	return nil
}

// readFormatLevel returns a data directory's format level. A malformed file is an error, because
// the directory may have any level.
func readFormatLevel(fsys vfs.FS, dir string) (int32, error) {
	content, err := fsys.ReadFile(filepath.Join(dir, FormatLevelFile))
	if errors.Is(err, fs.ErrNotExist) {
		return version.FormatLevelFirst, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", FormatLevelFile, err)
	}
	text, ended := strings.CutSuffix(string(content), "\n")
	level, err := strconv.ParseInt(text, 10, 32)
	if err != nil || !ended || level < version.FormatLevelFirst ||
		text != strconv.FormatInt(level, 10) {
		return 0, fmt.Errorf("read %s: %w: want one line with a number; stop the broker, and copy "+
			"the file from another broker of the cluster", FormatLevelFile, ErrMalformed)
	}
	return int32(level), nil
}

// SupportedFormatLevel returns a data directory's format level. It fails if this binary does not
// support the level.
func SupportedFormatLevel(fsys vfs.FS, dir string) (int32, error) {
	level, err := readFormatLevel(fsys, dir)
	if err != nil {
		return 0, err
	}
	if err := CheckFormatLevel(level); err != nil {
		return 0, fmt.Errorf("open a directory with %w; use the version that has written it, or a "+
			"later one", err)
	}
	return level, nil
}

// WriteFormatLevel durably writes the format level of a data directory.
func WriteFormatLevel(fsys vfs.FS, dir string, level int32) error {
	content := strconv.Itoa(int(level)) + "\n"
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(dir, FormatLevelFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", FormatLevelFile, err)
	}
	return nil
}
