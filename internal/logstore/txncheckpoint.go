package logstore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// abortedCount is how many aborted transactions a segment's transaction index holds. A segment that
// has none has no index, so that nothing in the directory tells when one is lost: its aborted
// records would pass for committed ones.
type abortedCount struct {
	base  int64
	count int
}

// countAborted lists the segments that lie below an offset as a whole and have a transaction index,
// ascending by base.
func countAborted(handles []*handle, below int64) (counts []abortedCount) {
	for i, h := range handles {
		if i+1 < len(handles) && handles[i+1].Base() > below || i+1 == len(handles) &&
			h.NextOffset() > below {
			break
		}
		if n := h.AbortedCount(); n > 0 {
			counts = append(counts, abortedCount{h.Base(), n})
		}
	}
	return counts
}

// encodeAborted writes aborted-transactions-checkpoint: "<topic> <partition> <base> <count>",
// sorted, so that equal content is equal bytes.
func encodeAborted(all map[PartitionID]saved) []byte {
	var ids []PartitionID
	for id, of := range all {
		if len(of.aborted) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, comparePartitions)
	var lines []string
	for _, id := range ids {
		for _, a := range all[id].aborted {
			lines = append(lines, fmt.Sprintf("%s %d %d %d", id.Topic, id.Index, a.base, a.count))
		}
	}
	return encodeCheckpoint(lines)
}

// decodeAborted reads the file. One bad line fails all of it.
func decodeAborted(content []byte) (map[PartitionID][]abortedCount, error) {
	lines, err := decodeCheckpoint(content)
	if err != nil {
		return nil, err
	}
	all := map[PartitionID][]abortedCount{}
	for _, line := range lines {
		if len(line) != 4 {
			return nil, fmt.Errorf("%w: %d fields in a line, want 4", errCheckpoint, len(line))
		}
		index, err := strconv.ParseInt(line[1], 10, 32)
		if err != nil || index < 0 {
			return nil, fmt.Errorf("%w: partition %q", errCheckpoint, line[1])
		}
		base, err := strconv.ParseInt(line[2], 10, 64)
		if err != nil || base < 0 {
			return nil, fmt.Errorf("%w: base %q", errCheckpoint, line[2])
		}
		count, err := strconv.ParseInt(line[3], 10, 32)
		if err != nil || count <= 0 {
			return nil, fmt.Errorf("%w: %q aborted transactions", errCheckpoint, line[3])
		}
		id := PartitionID{Topic: line[0], Index: int32(index)}
		if known := all[id]; len(known) > 0 && known[len(known)-1].base >= base {
			return nil, fmt.Errorf("%w: segment %d is out of order", errCheckpoint, base)
		}
		all[id] = append(all[id], abortedCount{base, int(count)})
	}
	return all, nil
}

// abortedIn is how many aborted transactions a segment had when the checkpoints were written, if
// that is known; else 0.
func (s saved) abortedIn(base int64) int {
	at, found := slices.BinarySearchFunc(s.aborted, base,
		func(a abortedCount, base int64) int { return cmp.Compare(a.base, base) })
	if !found {
		return 0
	}
	return s.aborted[at].count
}
