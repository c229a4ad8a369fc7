package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errCheckpoint is wrapped by every error about the content of a checkpoint file.
var errCheckpoint = errors.New("malformed checkpoint")

// The checkpoint files of a data directory; docs/format/checkpoints.md says what each is for.
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	firstDirtyFile    = "cleaner-offset-checkpoint"
	horizonFile       = "tombstone-horizon-checkpoint" // ours, not Kafka's
	// ours; not one offset a partition (txncheckpoint.go)
	abortedFile = "aborted-transactions-checkpoint"
	agreedFile  = "tombstone-agreement-checkpoint" // ours; likewise (agreement.go)
	epochFile   = "leader-epoch-checkpoint"        // one in each partition's directory
)

// encodeCheckpoint frames lines as Kafka does: version 0, number of lines, the lines.
func encodeCheckpoint(lines []string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "0\n%d\n", len(lines))
	for _, line := range lines {
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// decodeCheckpoint takes the frame off and returns the fields of each line. The number of lines
// stands in for a checksum: a file that was cut off does not match it.
func decodeCheckpoint(content []byte) ([][]string, error) {
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if lines[0] != "0" {
		return nil, fmt.Errorf("%w: version %q, want 0", errCheckpoint, lines[0])
	}
	if len(lines) < 2 || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("%w: the number of lines does not match", errCheckpoint)
	}
	fields := make([][]string, 0, len(lines)-2)
	for _, line := range lines[2:] {
		fields = append(fields, strings.Fields(line))
	}
	return fields, nil
}

// encodeOffsets writes a checkpoint of one offset a partition, sorted, so that equal content is
// equal bytes.
func encodeOffsets(offsets map[PartitionID]int64) []byte {
	ids := make([]PartitionID, 0, len(offsets))
	for id := range offsets {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, comparePartitions)
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = fmt.Sprintf("%s %d %d", id.Topic, id.Index, offsets[id])
	}
	return encodeCheckpoint(lines)
}

// decodeOffsets reads a checkpoint of one offset a partition: "<topic> <index> <offset>", both
// numbers >= 0. One bad line fails the whole file: what a damaged file says of the other partitions
// is not to be trusted either.
func decodeOffsets(content []byte) (map[PartitionID]int64, error) {
	lines, err := decodeCheckpoint(content)
	if err != nil {
		return nil, err
	}
	offsets := make(map[PartitionID]int64, len(lines))
	for _, line := range lines {
		if len(line) != 3 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 3", errCheckpoint, len(line))
		}
		index, err := strconv.ParseInt(line[1], 10, 32)
		if err != nil || index < 0 {
			return nil, fmt.Errorf("%w: partition %q", errCheckpoint, line[1])
		}
		offset, err := strconv.ParseInt(line[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("%w: offset %q", errCheckpoint, line[2])
		}
		offsets[PartitionID{Topic: line[0], Index: int32(index)}] = offset
	}
	return offsets, nil
}

// comparePartitions orders partitions by topic, then by index.
func comparePartitions(a, b PartitionID) int {
	if byTopic := strings.Compare(a.Topic, b.Topic); byTopic != 0 {
		return byTopic
	}
	return int(a.Index) - int(b.Index)
}
