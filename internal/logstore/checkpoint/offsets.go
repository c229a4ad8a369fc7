package checkpoint

import (
	"fmt"
	"strconv"
)

// EncodeOffsets encodes a checkpoint file that contains one offset per partition.
func EncodeOffsets(offsets map[PartitionID]int64) []byte {
	ids := sortedIDs(offsets)
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = fmt.Sprintf("%s %d %d", id.Topic, id.Index, offsets[id])
	}
	return encodeLines(lines)
}

// DecodeOffsets decodes a checkpoint file that contains one offset per partition. A line is
// "<topic> <index> <offset>", and both numbers are at least 0.
func DecodeOffsets(content []byte) (map[PartitionID]int64, error) {
	lines, err := decodeLines(content)
	if err != nil {
		return nil, err
	}
	offsets := make(map[PartitionID]int64, len(lines))
	for _, line := range lines {
		if len(line) != 3 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 3", ErrMalformed, len(line))
		}
		id, err := parsePartition(line[0], line[1])
		if err != nil {
			return nil, err
		}
		offset, err := strconv.ParseInt(line[2], 10, 64)
		if err != nil || offset < 0 {
			return nil, fmt.Errorf("%w: offset %q", ErrMalformed, line[2])
		}
		offsets[id] = offset
	}
	return offsets, nil
}
