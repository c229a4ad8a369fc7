package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// AbortedCount is the number of aborted transactions in the transaction index of one segment.
//
// A segment without aborted transactions has no index file. So the directory alone does not show
// whether an index file was lost. Without this file, the records of aborted transactions would be
// returned as committed.
type AbortedCount struct {
	Base  int64 // segment's base offset
	Count int
}

// AbortedCounts contains the counts of one partition, in ascending order of Base. Segments without
// aborted transactions are omitted.
type AbortedCounts []AbortedCount

// Of returns a segment's count, or 0 if the segment is not listed.
func (c AbortedCounts) Of(base int64) int {
	index, found := slices.BinarySearchFunc(c, base,
		func(a AbortedCount, base int64) int { return cmp.Compare(a.Base, base) })
	if !found {
		return 0
	}
	return c[index].Count
}

// EncodeAborted encodes aborted-transactions-checkpoint, with one line per segment: "<topic>
// <partition> <base> <count>".
func EncodeAborted(all map[PartitionID]AbortedCounts) []byte {
	var lines []string
	for _, id := range sortedIDs(all) {
		for _, a := range all[id] {
			lines = append(lines, fmt.Sprintf("%s %d %d %d", id.Topic, id.Index, a.Base, a.Count))
		}
	}
	return encodeLines(lines)
}

// DecodeAborted decodes aborted-transactions-checkpoint.
func DecodeAborted(content []byte) (map[PartitionID]AbortedCounts, error) {
	lines, err := decodeLines(content)
	if err != nil {
		return nil, err
	}
	all := map[PartitionID]AbortedCounts{}
	for _, line := range lines {
		if len(line) != 4 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 4", ErrMalformed, len(line))
		}
		id, err := parsePartition(line[0], line[1])
		if err != nil {
			return nil, err
		}
		base, err := strconv.ParseInt(line[2], 10, 64)
		if err != nil || base < 0 {
			return nil, fmt.Errorf("%w: base offset %q", ErrMalformed, line[2])
		}
		count, err := strconv.ParseInt(line[3], 10, 32)
		if err != nil || count <= 0 {
			return nil, fmt.Errorf("%w: %q aborted transactions", ErrMalformed, line[3])
		}
		if known := all[id]; len(known) > 0 && known[len(known)-1].Base >= base {
			return nil, fmt.Errorf("%w: segment %d is out of order", ErrMalformed, base)
		}
		all[id] = append(all[id], AbortedCount{base, int(count)})
	}
	return all, nil
}
