package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
)

// segmentsFile sums up every segment of every log that Close closed in order, so that the next
// start opens none of them. Ours, not Kafka's (docs/format/checkpoints.md).
const segmentsFile = "segment-checkpoint"

// summaries are the logs as Close left them.
type summaries map[PartitionID]closedLog

// closedLog is a log that was closed in order.
type closedLog struct {
	// ascending by base; those that have a transaction index are not among them
	segments []segment.Summary
	epochs   closedEpochs
}

// closedEpochs tells whether the file of leader epochs is the one that Close left: an older one is
// as readable.
type closedEpochs struct {
	known    bool // it was written down
	latest   epochEntry
	checksum string // of the file that says what it said
}

func (c epochCache) summary() closedEpochs {
	sum := closedEpochs{known: true, latest: epochEntry{epoch: -1},
		checksum: segmentChecksum(c.encode())}
	if len(c) > 0 {
		sum.latest = c[len(c)-1]
	}
	return sum
}

// segmentFields is the number of fields in a line; the last is the checksum of what stands before
// it.
//
// The other checkpoints are held against the log, and have none. Of this one a start believes where
// a log ends, and would give offsets twice by a bit that fell over.
const segmentFields = 16

// epochFields is the number of fields in the line of a log's leader epochs, which is told from the
// others by it.
const epochFields = 6

// encode writes the file, sorted, so that equal content is equal bytes.
func (all summaries) encode() []byte {
	ids := make([]PartitionID, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, comparePartitions)
	var lines []string
	for _, id := range ids {
		if epochs := all[id].epochs; epochs.known {
			line := fmt.Appendf(nil, "%s %d %d %d %s", id.Topic, id.Index, epochs.latest.epoch,
				epochs.latest.start, epochs.checksum)
			lines = append(lines, string(fmt.Appendf(line, " %s", segmentChecksum(line))))
		}
		for _, sum := range all[id].segments {
			line := fmt.Appendf(nil, "%s %d %d %d %d %d %d %d %d", id.Topic, id.Index, sum.Base,
				sum.Next, sum.FirstTimestamp,
				sum.MaxTimestamp, sum.MaxTimestampOffset, sum.LastIndexed.Relative,
				sum.LastIndexed.Position)
			for _, file := range sum.Files {
				line = fmt.Appendf(line, " %d %d", file.SizeBytes, file.ModTime.UnixNano())
			}
			lines = append(lines, string(fmt.Appendf(line, " %s", segmentChecksum(line))))
		}
	}
	return encodeCheckpoint(lines)
}

// segmentChecksum is CRC-32C in eight hex digits.
func segmentChecksum(line []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(line, castagnoli))
}

// decodeSummaries reads the file. One bad line fails all of it: a start without it is slow and
// right.
func decodeSummaries(content []byte) (summaries, error) {
	lines, err := decodeCheckpoint(content)
	if err != nil {
		return nil, err
	}
	all := summaries{}
	for _, line := range lines {
		if len(line) != segmentFields && len(line) != epochFields {
			return nil, fmt.Errorf("%w: %d fields in a line, want %d or %d", errCheckpoint,
				len(line), segmentFields, epochFields)
		}
		last := len(line) - 1
		if want := segmentChecksum([]byte(strings.Join(line[:last], " "))); line[last] != want {
			return nil, fmt.Errorf("%w: checksum %q of a line, want %s", errCheckpoint, line[last],
				want)
		}
		if err := all.add(line[:last]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add takes in the fields of a line, without its checksum.
func (all summaries) add(line []string) error {
	texts := line[1:]
	if len(line) == epochFields-1 {
		texts = line[1 : len(line)-1] // the last is a checksum
	}
	var numbers [segmentFields - 2]int64
	for i, text := range texts {
		bits := 64
		if i == 0 || i == 6 || i == 7 { // the partition, and an index entry, are 32 bits wide
			bits = 32
		}
		var err error
		if numbers[i], err = strconv.ParseInt(text, 10, bits); err != nil {
			return fmt.Errorf("%w: number %q", errCheckpoint, text)
		}
	}
	id := PartitionID{Topic: line[0], Index: int32(numbers[0])}
	of := all[id]
	if len(line) == epochFields-1 {
		if numbers[0] < 0 || numbers[1] < -1 || numbers[1] > math.MaxInt32 || numbers[2] < 0 {
			return fmt.Errorf("%w: partition %d, epoch %d at %d", errCheckpoint, numbers[0],
				numbers[1], numbers[2])
		}
		of.epochs = closedEpochs{known: true, latest: epochEntry{int32(numbers[1]), numbers[2]},
			checksum: line[len(line)-1]}
		all[id] = of
		return nil
	}
	if numbers[0] < 0 || numbers[1] < 0 {
		return fmt.Errorf("%w: partition %d, base %d", errCheckpoint, numbers[0], numbers[1])
	}
	sum := segment.Summary{
		Base: numbers[1], Next: numbers[2], FirstTimestamp: numbers[3], MaxTimestamp: numbers[4],
		MaxTimestampOffset: numbers[5],
		LastIndexed: segment.OffsetEntry{Relative: int32(numbers[6]),
			Position: int32(numbers[7])},
	}
	for i := range sum.Files {
		sum.Files[i] = segment.FileState{SizeBytes: numbers[8+2*i],
			ModTime: time.Unix(0, numbers[9+2*i])}
	}
	of.segments = append(of.segments, sum)
	all[id] = of
	return nil
}

// loadSummaries reads the file after a clean stop; anything wrong with it only makes the start
// slower.
func (s *Store) loadSummaries() summaries {
	content, err := s.opts.FS.ReadFile(filepath.Join(s.opts.Dir, segmentsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all summaries
	if err == nil {
		all, err = decodeSummaries(content)
	}
	if err != nil {
		s.opts.Logger.Warn("checkpoint unreadable", "file", segmentsFile, "error", err)
	}
	return all
}

// saveSummaries writes the file, once all logs are closed. The marker of a clean stop comes after
// it.
func (s *Store) saveSummaries(all summaries) error {
	if err := vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.opts.Dir, segmentsFile),
		all.encode()); err != nil {
		return fmt.Errorf("write %s: %w", segmentsFile, err)
	}
	return nil
}

// summarize sums up what is sealed. A segment that cannot be summed up is opened the long way.
func summarize(handles []*handle) []segment.Summary {
	var all []segment.Summary
	for _, h := range handles {
		if sum, ok, err := h.Summary(); ok && err == nil {
			all = append(all, sum)
		}
	}
	return all
}

// openSegment opens a segment that was closed in order or lies below the recovery point: by its
// summary, if there is one and nobody has touched the files since, else by reading the ends of its
// files.
func (r *recovery) openSegment(base int64) (*segment.Segment, error) {
	if i, found := r.summaryOf(base); found {
		s, err := segment.OpenSealed(r.log.env.fs, r.log.dir, r.closed.segments[i],
			r.log.env.segments)
		if !errors.Is(err, segment.ErrOtherFiles) {
			return s, err
		}
		r.log.env.logger.Debug("segment changed since it was summed up", "partition", r.log.id,
			"segment", base)
	}
	return segment.Open(r.log.env.fs, r.log.dir, base, r.log.env.segments)
}

// summaryOf finds the summary of a segment.
func (r *recovery) summaryOf(base int64) (at int, found bool) {
	return slices.BinarySearchFunc(r.closed.segments, base,
		func(sum segment.Summary, base int64) int { return cmp.Compare(sum.Base, base) })
}
