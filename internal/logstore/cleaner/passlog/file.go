package passlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/vfs"
)

// Names of the files in the data directory (docs/format/cleaner-history.md).
const (
	fileName    = "cleaner-history"
	oldFileName = "cleaner-history.1"
)

// fileBytesMax is the size at which the file replaces the old one and a new file begins. A file of
// more than readBytesMax was not written by this package, and is not read.
const (
	fileBytesMax = 1 << 20
	readBytesMax = 2 * fileBytesMax
)

// passFile appends passes to the file. The Log serializes its methods.
type passFile struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	size   int64 // end of the last complete line
	writes outage.State
}

// load returns the passes of both files, ascending by id, and prepares append.
func (f *passFile) load() (all []report.PartitionPass) {
	for _, name := range []string{oldFileName, fileName} {
		content, err := f.read(name)
		if err != nil {
			f.logger.Warn("failed to read passes of the cleaner", "file", name, "error", err)
		}
		passes, size, damaged := decode(content)
		if damaged > 0 {
			f.logger.Info("lines of passes skipped, which are incomplete after a crash", "file", name,
				"lines", damaged)
		}
		all = append(all, passes...)
		f.size = int64(size) // at last that of fileName
	}
	slices.SortStableFunc(all,
		func(a, b report.PartitionPass) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b report.PartitionPass) bool { return a.ID == b.ID })
}

func (f *passFile) read(name string) ([]byte, error) {
	path := filepath.Join(f.dir, name)
	info, err := f.fs.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > readBytesMax:
		return nil, fmt.Errorf("%d bytes, want at most %d", info.Size(), readBytesMax)
	}
	return f.fs.ReadFile(path)
}

// decode returns the passes of a file and the size of its complete lines. It skips lines that are
// not a pass, and an incomplete last line: damaged is their number.
func decode(content []byte) (passes []report.PartitionPass, size, damaged int) {
	for {
		end := bytes.IndexByte(content[size:], '\n')
		if end < 0 {
			if size < len(content) {
				damaged++
			}
			return passes, size, damaged
		}
		line := content[size : size+end]
		size += end + 1
		var pass report.PartitionPass
		if json.Unmarshal(line, &pass) != nil || !valid(&pass) {
			damaged++
			continue
		}
		pass.StepCount = len(pass.Steps)
		passes = append(passes, pass)
	}
}

// valid reports whether a pass can have been written by encode.
func valid(p *report.PartitionPass) bool {
	return p.ID > 0 && p.Topic != "" && p.Partition >= 0 && p.Ended != nil &&
		len(p.Steps) <= report.PassStepsMax
}

// append writes a pass at the end of the file. An error is logged at the beginning of an outage
// only: the pass itself has not failed.
func (f *passFile) append(pass *report.PartitionPass) {
	err := f.write(pass)
	if err == nil {
		if failures, ends := f.writes.Succeed(); ends {
			f.logger.Info("passes of the cleaner are written again", "failures", failures)
		}
		return
	}
	if f.writes.Fail(time.Now()) {
		f.logger.Warn("failed to write a pass of the cleaner to its history", "error", err)
	}
}

func (f *passFile) write(pass *report.PartitionPass) error {
	line, err := json.Marshal(pass)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	path := filepath.Join(f.dir, fileName)
	if f.size > 0 && f.size+int64(len(line)) > fileBytesMax {
		if err := f.fs.Rename(path, filepath.Join(f.dir, oldFileName)); err != nil {
			return err
		}
		f.size = 0
	}
	open := f.fs.OpenReadWrite
	if f.size == 0 {
		open = f.fs.Create // also discards a file that begins with an incomplete line
	}
	file, err := open(path)
	if err != nil {
		return err
	}
	// After a failed write, the next one overwrites the incomplete line.
	if _, err = file.WriteAt(line, f.size); err == nil {
		err = file.Truncate(f.size + int64(len(line)))
	}
	if err = errors.Join(err, file.Close()); err == nil {
		f.size += int64(len(line))
	}
	return err
}
