package checkpoint

import (
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// ClosedLog describes a log that was closed without an error. With it, the next start can open the
// log without reading the log's files. The zero value means that the log was not closed in this
// way.
type ClosedLog struct {
	// Segments ascend by base offset. A segment with a transaction index is omitted, because every
	// entry of the index must be checked when the segment is opened.
	Segments []segment.Summary
	// Ranges are the offset ranges of the segments that Segments omits, in ascending order. A later
	// start uses them only to detect that a segment is missing.
	Ranges []Range
	Epochs ClosedEpochs
}

// Range contains the offsets [Base, Next) of a segment.
type Range struct{ Base, Next int64 }

// ClosedEpochs identifies the content of leader-epoch-checkpoint at the time when the log was
// closed. Without it, a start could not recognize an older copy of the file, because the copy is
// well-formed too.
type ClosedEpochs struct {
	Known    bool              // false if the log was not closed without an error
	Latest   leaderepoch.Entry // Epoch is -1 if the log had no leader epoch
	Checksum string            // checksum of the file's content
}

// SummarizeEpochs returns the ClosedEpochs of a log with these leader epochs.
func SummarizeEpochs(cache leaderepoch.Cache) ClosedEpochs {
	sum := ClosedEpochs{Known: true, Latest: leaderepoch.Entry{Epoch: leaderepoch.None},
		Checksum: checksum(EncodeEpochs(cache))}
	if len(cache) > 0 {
		sum.Latest = cache[len(cache)-1]
	}
	return sum
}

// The number of fields distinguishes the four kinds of lines in segment-checkpoint. The last field
// of a line is the checksum of the fields before it.
//
// The other checkpoint files need no checksum, because a start compares their values with the log.
// A start reads the end of a log only from this file. Without a checksum, a flipped bit could lower
// this end, and offsets would be assigned a second time.
const (
	segmentFields = 16
	epochFields   = 6
	rangeFields   = 5
	writerFields  = 2
)

// EncodeClosedLogs encodes segment-checkpoint. writer is the broker epoch in the clean-shutdown
// marker, which is written after this file.
func EncodeClosedLogs(all map[PartitionID]ClosedLog, writer int64) []byte {
	line := strconv.AppendInt(nil, writer, 10)
	lines := []string{string(fmt.Appendf(line, " %s", checksum(line)))}
	for _, id := range sortedIDs(all) {
		if epochs := all[id].Epochs; epochs.Known {
			line := fmt.Appendf(nil, "%s %d %d %d %s", id.Topic, id.Index, epochs.Latest.Epoch,
				epochs.Latest.Start, epochs.Checksum)
			lines = append(lines, string(fmt.Appendf(line, " %s", checksum(line))))
		}
		for _, sum := range all[id].Segments {
			line := fmt.Appendf(nil, "%s %d %d %d %d %d %d %d %d", id.Topic, id.Index, sum.Base,
				sum.Next, sum.FirstTimestamp, sum.MaxTimestamp, sum.MaxTimestampOffset,
				sum.LastIndexed.Relative, sum.LastIndexed.Position)
			for _, file := range sum.Files {
				line = fmt.Appendf(line, " %d %d", file.SizeBytes, file.ModTime.UnixNano())
			}
			lines = append(lines, string(fmt.Appendf(line, " %s", checksum(line))))
		}
		for _, r := range all[id].Ranges {
			line := fmt.Appendf(nil, "%s %d %d %d", id.Topic, id.Index, r.Base, r.Next)
			lines = append(lines, string(fmt.Appendf(line, " %s", checksum(line))))
		}
	}
	return encodeLines(lines)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C as eight hex digits.
func checksum(content []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(content, castagnoli))
}

// DecodeClosedLogs decodes segment-checkpoint. writer is the broker epoch in its first line.
func DecodeClosedLogs(content []byte) (all map[PartitionID]ClosedLog, writer int64, err error) {
	lines, err := decodeLines(content)
	if err != nil {
		return nil, 0, err
	}
	if len(lines) == 0 || len(lines[0]) != writerFields {
		return nil, 0, fmt.Errorf("%w: the first line is not a broker epoch", ErrMalformed)
	}
	all = map[PartitionID]ClosedLog{}
	for i, line := range lines {
		last := len(line) - 1
		if last < 0 {
			return nil, 0, fmt.Errorf("%w: a line without fields", ErrMalformed)
		}
		if want := checksum([]byte(strings.Join(line[:last], " "))); line[last] != want {
			return nil, 0, fmt.Errorf("%w: checksum %q of a line, want %s", ErrMalformed, line[last],
				want)
		}
		if i == 0 {
			numbers, err := parseNumbers(line[:last])
			if err != nil {
				return nil, 0, err
			}
			writer = numbers[0]
		} else if err := decodeClosedLine(line, all); err != nil {
			return nil, 0, err
		}
	}
	return all, writer, nil
}

// decodeClosedLine decodes a line that describes the leader epochs or a segment of a partition.
func decodeClosedLine(line []string, all map[PartitionID]ClosedLog) error {
	if len(line) < rangeFields {
		return fmt.Errorf("%w: %d fields in a line", ErrMalformed, len(line))
	}
	id, err := parsePartition(line[0], line[1])
	if err != nil {
		return err
	}
	closed, fields := all[id], line[2:len(line)-1]
	switch len(line) {
	case rangeFields:
		var numbers []int64
		if numbers, err = parseNumbers(fields); err == nil {
			closed.Ranges = append(closed.Ranges, Range{numbers[0], numbers[1]})
		}
	case epochFields:
		closed.Epochs, err = parseClosedEpochs(fields)
	case segmentFields:
		var sum segment.Summary
		sum, err = parseSummary(fields)
		closed.Segments = append(closed.Segments, sum)
	default:
		err = fmt.Errorf("%w: %d fields in a line", ErrMalformed, len(line))
	}
	all[id] = closed
	return err
}

// parseClosedEpochs parses the fields between the partition and the checksum of a line.
func parseClosedEpochs(texts []string) (ClosedEpochs, error) {
	numbers, err := parseNumbers(texts[:2])
	if err != nil {
		return ClosedEpochs{}, err
	}
	epoch, start := numbers[0], numbers[1]
	if epoch < -1 || epoch > math.MaxInt32 || start < 0 {
		return ClosedEpochs{}, fmt.Errorf("%w: epoch %d at %d", ErrMalformed, epoch, start)
	}
	return ClosedEpochs{Known: true, Latest: leaderepoch.Entry{Epoch: int32(epoch), Start: start},
			Checksum: texts[2]},
		nil
}

// parseSummary parses the fields between the partition and the checksum of a line.
func parseSummary(texts []string) (segment.Summary, error) {
	numbers, err := parseNumbers(texts)
	if err != nil {
		return segment.Summary{}, err
	}
	relative, position := numbers[5], numbers[6]
	if numbers[0] < 0 || relative != int64(int32(relative)) || position != int64(int32(position)) {
		return segment.Summary{}, fmt.Errorf("%w: segment %d, last indexed %d at %d", ErrMalformed,
			numbers[0], relative, position)
	}
	sum := segment.Summary{
		Base: numbers[0], Next: numbers[1], FirstTimestamp: numbers[2], MaxTimestamp: numbers[3],
		MaxTimestampOffset: numbers[4],
		LastIndexed: segment.OffsetEntry{Relative: int32(relative),
			Position: int32(position)},
	}
	for i := range sum.Files {
		sum.Files[i] = segment.FileState{SizeBytes: numbers[7+2*i],
			ModTime: time.Unix(0, numbers[8+2*i])}
	}
	return sum, nil
}

func parseNumbers(texts []string) (numbers []int64, err error) {
	numbers = make([]int64, len(texts))
	for i, text := range texts {
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: number %q", ErrMalformed, text)
		}
	}
	return numbers, nil
}

// End returns the end offset of the log, or -1 if no segment is listed.
func (c ClosedLog) End() int64 {
	end := int64(UnknownOffset)
	for _, sum := range c.Segments {
		end = max(end, sum.Next)
	}
	for _, r := range c.Ranges {
		end = max(end, r.Next)
	}
	return end
}
