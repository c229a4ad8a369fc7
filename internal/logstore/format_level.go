package logstore

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

// formatLevelFile is in the data directory; docs/format/format-level.md describes it.
const formatLevelFile = "format-level"

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

// readFormatLevel returns the format level of a data directory. A malformed file is an error: its
// directory may have any level.
func readFormatLevel(fsys vfs.FS, dir string) (int32, error) {
	content, err := fsys.ReadFile(filepath.Join(dir, formatLevelFile))
	if errors.Is(err, fs.ErrNotExist) {
		return version.FormatLevelFirst, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", formatLevelFile, err)
	}
	text, ended := strings.CutSuffix(string(content), "\n")
	level, err := strconv.ParseInt(text, 10, 32)
	if err != nil || !ended || level < version.FormatLevelFirst ||
		text != strconv.FormatInt(level, 10) {
		return 0, fmt.Errorf("read %s: %w: want one line with a number", formatLevelFile, errMeta)
	}
	return int32(level), nil
}

// supportedFormatLevel returns the format level of a data directory, and an error if this binary
// does not support it.
func supportedFormatLevel(fsys vfs.FS, dir string) (int32, error) {
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

// FormatLevel returns the format level of the data directory: that of the newest format that its
// files may have.
func (s *Store) FormatLevel() int32 { return s.formatLevel.Load() }

// RaiseFormatLevel durably records that the files of the data directory may have the formats of a
// level. It must be called before the first such file is written. A level that is not higher
// changes nothing. It fails if this binary does not support the level.
func (s *Store) RaiseFormatLevel(level int32) error {
	if level <= s.formatLevel.Load() {
		return nil
	}
	if err := CheckFormatLevel(level); err != nil {
		return fmt.Errorf("raise the format level: %w", err)
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	content := strconv.Itoa(int(level)) + "\n"
	if err := vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.opts.Dir, formatLevelFile),
		[]byte(content)); err != nil {
		return fmt.Errorf("write %s: %w", formatLevelFile, err)
	}
	s.formatLevel.Store(level)
	return nil
}
