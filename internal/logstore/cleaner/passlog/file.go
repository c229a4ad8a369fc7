package passlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/api/report"
)

// Names of the files in the data directory (docs/internals/format/cleaner-history.md).
const (
	fileName    = "cleaner-history"
	oldFileName = "cleaner-history.1"
)

// fileBytesMax is the size at which the current file becomes the old file and a new file begins.
// readBytesMax is the size above which a file is not read, because this package has not written it.
const (
	fileBytesMax = 1 << 20
	readBytesMax = 2 * fileBytesMax
)

// passFile appends passes to the current file. The Log serializes calls of its methods.
type passFile struct {
	lines lineFile
	old   string // path of the old file
}

func newPassFile(opts Options) passFile {
	return passFile{lines: newLineFile(opts, fileName), old: filepath.Join(opts.Dir, oldFileName)}
}

// load returns the passes in both files in ascending order of their ids, and prepares append.
func (f *passFile) load() (all []report.PartitionPass) {
	for _, path := range []string{f.old, f.lines.path} {
		content, err := readAtMost(f.lines.fs, path, readBytesMax)
		if err != nil {
			f.lines.logger.Warn("failed to read passes of the cleaner", "file", path, "error", err)
		}
		passes, size, damaged := decode(content)
		if damaged > 0 {
			f.lines.logger.Info("lines of passes skipped, which are incomplete after a crash", "file", path,
				"lines", damaged)
		}
		all = append(all, passes...)
		f.lines.size = int64(size) // in the end the size of fileName
	}
	slices.SortStableFunc(all,
		func(a, b report.PartitionPass) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b report.PartitionPass) bool { return a.ID == b.ID })
}

// decode returns the passes in a file and the size of its complete lines. It skips lines that are
// not a pass, and an incomplete last line; damaged is the number of skipped lines.
func decode(content []byte) (passes []report.PartitionPass, size, damaged int) {
	size, damaged = eachLine(content, func(line []byte) bool {
		var pass report.PartitionPass
		if json.Unmarshal(line, &pass) != nil || !valid(&pass) {
			return false
		}
		pass.StepCount = len(pass.Steps)
		passes = append(passes, pass)
		return true
	})
	return passes, size, damaged
}

// valid reports whether encode can have written the pass.
func valid(p *report.PartitionPass) bool {
	return p.ID > 0 && p.Topic != "" && p.TopicID != "" && p.Partition >= 0 && p.Ended != nil &&
		len(p.Steps) <= report.PassStepsMax
}

// replace writes both files again, with the given passes only.
func (f *passFile) replace(passes []report.PartitionPass) error {
	if err := f.lines.fs.Remove(f.old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.lines.size = 0
	if err := f.lines.append(nil); err != nil { // empties the file
		return err
	}
	for i := range passes {
		if err := f.write(&passes[i]); err != nil {
			return err
		}
	}
	return nil
}

// append writes a pass at the end of the file.
func (f *passFile) append(pass *report.PartitionPass) { f.lines.written(f.write(pass)) }

func (f *passFile) write(pass *report.PartitionPass) error {
	line, err := json.Marshal(pass)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if f.lines.size > 0 && f.lines.size+int64(len(line)) > fileBytesMax {
		if err := f.lines.fs.Rename(f.lines.path, f.old); err != nil {
			return err
		}
		f.lines.size = 0
	}
	return f.lines.append(line)
}
