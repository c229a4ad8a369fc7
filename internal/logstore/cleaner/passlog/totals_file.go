package passlog

import (
	"encoding/json"

	"heartwood.dev/heartwood/internal/vfs"
)

// totalsName is the name of the file in the data directory
// (docs/internals/format/cleaner-totals.md).
const totalsName = "cleaner-totals"

const (
	// totalsSpareLines is the number of superseded lines that the file may have in addition to one
	// line for each log.
	totalsSpareLines = 128
	// totalsReadBytesMax limits the memory that a start uses for the file. A line has less than 1.5
	// KiB, and most lines have some 600 bytes, so the file of a broker with a hundred thousand logs
	// is smaller than the limit.
	totalsReadBytesMax = 256 << 20
	// topicIDBytes is the length of Key.TopicID.
	topicIDBytes = 22
)

// totalsLine is a line of the file: a log's totals, which supersede the log's totals in earlier
// lines. The line of a removed log has no totals.
type totalsLine struct {
	TopicID   string `json:"topicId"`
	Partition int32  `json:"partition"`
	Removed   bool   `json:"removed,omitempty"`
	*Totals
}

func (l *totalsLine) valid() bool {
	if len(l.TopicID) != topicIDBytes || l.Partition < 0 || l.Removed != (l.Totals == nil) {
		return false
	}
	return l.Removed || l.ReadBytes >= 0 && l.WrittenBytes >= 0 && l.SidecarReadBytes >= 0 &&
		l.SidecarWrittenBytes >= 0
}

// appendTo appends the line and a line feed to lines.
func (l *totalsLine) appendTo(lines []byte) []byte {
	encoded, err := json.Marshal(l)
	if err != nil {
		return lines // impossible, because every totalsLine has a JSON form
	}
	return append(append(lines, encoded...), '\n')
}

// totalsFile stores the totals of all logs in a file. The Log serializes calls of its methods.
type totalsFile struct {
	lines lineFile
	count int // number of lines in the file
	// stale is set after a failed write. The file then lacks totals until it is rewritten.
	stale bool
}

// load returns the totals in the file, and prepares write.
func (f *totalsFile) load() map[Key]Totals {
	content, err := readAtMost(f.lines.fs, f.lines.path, totalsReadBytesMax)
	if err != nil {
		f.lines.logger.Warn("failed to read the totals of the cleaner; they start at 0", "error", err)
	}
	all, lines, size, damaged := decodeTotals(content)
	if damaged > 0 {
		f.lines.logger.Info("lines of the cleaner's totals skipped, which are incomplete after a crash",
			"lines", damaged)
	}
	f.lines.size, f.count = int64(size), lines
	return all
}

// decodeTotals returns the totals in a file, and the number and the total size of its complete
// lines. It skips lines that are not totals, and an incomplete last line; damaged is the number of
// skipped lines.
func decodeTotals(content []byte) (all map[Key]Totals, lines, size, damaged int) {
	all = map[Key]Totals{}
	size, damaged = eachLine(content, func(text []byte) bool {
		lines++
		var line totalsLine
		if json.Unmarshal(text, &line) != nil || !line.valid() {
			return false
		}
		key := Key{line.TopicID, line.Partition}
		if line.Removed {
			delete(all, key)
		} else {
			all[key] = *line.Totals
		}
		return true
	})
	return all, lines, size, damaged
}

// write adds lines to the file. If the file would then have more than twice as many lines as
// necessary, or lacks lines after a failed write, write replaces the file by current's result: one
// line for each log.
func (f *totalsFile) write(lines []totalsLine, logs int, current func() []totalsLine) {
	err := f.tryWrite(lines, logs, current)
	f.stale = err != nil
	f.lines.written(err)
}

func (f *totalsFile) tryWrite(lines []totalsLine, logs int, current func() []totalsLine) error {
	replace := f.stale || f.count+len(lines) > 2*logs+totalsSpareLines
	if replace {
		lines = current()
	}
	var content []byte
	for i := range lines {
		content = lines[i].appendTo(content)
	}
	if !replace {
		err := f.lines.append(content)
		if err == nil {
			f.count += len(lines)
		}
		return err
	}
	// The new content is synced, because otherwise a crash of the machine could lose all totals.
	err := vfs.WriteFileAtomic(f.lines.fs, f.lines.path, content)
	if err == nil {
		f.count, f.lines.size = len(lines), int64(len(content))
	}
	return err
}
