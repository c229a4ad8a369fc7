package passlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// lineFile is a file of lines that are only appended. Lines are not synced.
type lineFile struct {
	fs     vfs.FS
	path   string
	logger *slog.Logger
	size   int64 // end of the last complete line
	writes outage.State
}

func newLineFile(opts Options, name string) lineFile {
	return lineFile{fs: opts.FS, path: filepath.Join(opts.Dir, name), logger: opts.Logger}
}

// written logs the result of a write. It logs an error only at the beginning of an outage, because
// the pass itself has not failed.
func (f *lineFile) written(err error) {
	if err == nil {
		if failures, ends := f.writes.Succeed(); ends {
			f.logger.Info("file of the cleaner is written again", "file", f.path, "failures",
				failures)
		}
		return
	}
	if f.writes.Fail(time.Now()) {
		f.logger.Warn("failed to write file of the cleaner", "file", f.path, "error", err)
	}
}

// append writes complete lines after the last complete line. After a failed write, the next write
// overwrites the incomplete line.
func (f *lineFile) append(lines []byte) error {
	open := f.fs.OpenReadWrite
	if f.size == 0 {
		open = f.fs.Create // this also discards a file that begins with an incomplete line
	}
	file, err := open(f.path)
	if err != nil {
		return err
	}
	if _, err = file.WriteAt(lines, f.size); err == nil {
		err = file.Truncate(f.size + int64(len(lines)))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		f.size += int64(len(lines))
	}
	return err
}

// readAtMost returns the content of a file, or nil if the file does not exist. It does not read a
// file of more than bytesMax bytes.
func readAtMost(fsys vfs.FS, path string, bytesMax int64) ([]byte, error) {
	info, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > bytesMax:
		return nil, fmt.Errorf("%d bytes, want at most %d", info.Size(), bytesMax)
	}
	return fsys.ReadFile(path)
}

// eachLine calls decode with each complete line of a file, without the line feed. size is the total
// size of the complete lines. damaged is the number of lines that decode rejects, plus an
// incomplete last line.
func eachLine(content []byte, decode func(line []byte) bool) (size, damaged int) {
	for {
		end := bytes.IndexByte(content[size:], '\n')
		if end < 0 {
			if size < len(content) {
				damaged++
			}
			return size, damaged
		}
		if !decode(content[size : size+end]) {
			damaged++
		}
		size += end + 1
	}
}
