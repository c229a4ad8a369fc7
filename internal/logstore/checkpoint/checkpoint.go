package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// ErrMalformed is wrapped by every error about the content of a checkpoint file.
var ErrMalformed = errors.New("malformed checkpoint")

// ErrVersion is wrapped, in addition to ErrMalformed, by the error about a checkpoint file of a
// later version. Such a file belongs to another program and must not be replaced.
var ErrVersion = errors.New("unsupported version")

// The checkpoint files of a data directory. docs/internals/format/checkpoints.md describes the
// purpose of each file.
const (
	RecoveryPointFile = "recovery-point-offset-checkpoint"
	LogStartFile      = "log-start-offset-checkpoint"
	HighWatermarkFile = "replication-offset-checkpoint"
	FirstDirtyFile    = "cleaner-offset-checkpoint"
	// Kafka has no HorizonFile, AbortedFile, CleaningFile and SegmentsFile.
	HorizonFile  = "tombstone-horizon-checkpoint"
	AbortedFile  = "aborted-transactions-checkpoint"
	CleaningFile = "tombstone-agreement-checkpoint"
	SegmentsFile = "segment-checkpoint"
	// EpochsFile exists in each partition's directory and not in the data directory itself.
	EpochsFile = "leader-epoch-checkpoint"
)

// PartitionID names a partition; its directory is <Topic>-<Index>.
type PartitionID struct {
	Topic string
	Index int32
}

// String returns the name of the partition's directory.
func (p PartitionID) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Index) }

// LogValue implements slog.LogValuer: a JSON log contains the name of the directory instead of the
// struct.
func (p PartitionID) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Compare orders partitions by topic, then by index.
func (p PartitionID) Compare(q PartitionID) int {
	if byTopic := strings.Compare(p.Topic, q.Topic); byTopic != 0 {
		return byTopic
	}
	return cmp.Compare(p.Index, q.Index)
}

// sortedIDs returns the keys of a map in the order of a checkpoint file's lines.
func sortedIDs[V any](all map[PartitionID]V) []PartitionID {
	ids := make([]PartitionID, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, PartitionID.Compare)
	return ids
}

// encodeLines returns a file in Kafka's format: version 0, the number of lines, and the lines.
func encodeLines(lines []string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "0\n%d\n", len(lines))
	for _, line := range lines {
		out.WriteString(line)
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// decodeLines returns the fields of each line, without the version and the number of lines. The
// number of lines serves as a checksum, because it does not match in a truncated file.
func decodeLines(content []byte) ([][]string, error) {
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if version, err := strconv.ParseUint(lines[0], 10, 16); err == nil && version > 0 {
		return nil, fmt.Errorf("%w: %w %d, want 0", ErrMalformed, ErrVersion, version)
	}
	if lines[0] != "0" {
		return nil, fmt.Errorf("%w: version %q, want 0", ErrMalformed, lines[0])
	}
	if len(lines) < 2 || lines[1] != strconv.Itoa(len(lines)-2) {
		return nil, fmt.Errorf("%w: the number of lines does not match", ErrMalformed)
	}
	fields := make([][]string, 0, len(lines)-2)
	for _, line := range lines[2:] {
		fields = append(fields, strings.Fields(line))
	}
	return fields, nil
}

// RestoreVersion decodes the content of a file that decode has rejected with ErrVersion, under the
// assumption that one bit of the version has flipped. It fails with ErrVersion unless the rest of
// the file is valid in version 0. The caller ensures that no other program has written the file.
func RestoreVersion[T any](content []byte, decode func([]byte) (T, error)) (T, error) {
	if text, ok := bytes.CutPrefix(content[1:], []byte{'\n'}); ok &&
		bits.OnesCount8(content[0]^'0') == 1 {
		if value, err := decode(append([]byte("0\n"), text...)); err == nil {
			return value, nil
		}
	}
	return decode(content)
}

// parsePartition parses the two fields that identify a partition.
func parsePartition(topic, index string) (PartitionID, error) {
	n, err := strconv.ParseInt(index, 10, 32)
	if err != nil || n < 0 {
		return PartitionID{}, fmt.Errorf("%w: partition %q", ErrMalformed, index)
	}
	return PartitionID{Topic: topic, Index: int32(n)}, nil
}
