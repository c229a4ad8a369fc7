package logstore

import (
	"maps"
	"slices"
)

// logTable is a set of logs. It is not safe for concurrent use. The zero value is an empty table.
type logTable struct {
	byID map[PartitionID]*Log
	// sorted contains the logs in the order of their partitions; nil: it must be built again. The
	// rounds of maintenance and of the cleaner iterate over thousands of logs each second, and logs
	// are added and removed rarely. The slice is replaced, never modified.
	sorted []*Log
}

func (t *logTable) get(id PartitionID) *Log { return t.byID[id] }

func (t *logTable) put(log *Log) {
	if t.byID == nil {
		t.byID = map[PartitionID]*Log{}
	}
	t.byID[log.id], t.sorted = log, nil
}

func (t *logTable) remove(id PartitionID) {
	delete(t.byID, id)
	t.sorted = nil
}

func (t *logTable) len() int { return len(t.byID) }

// all returns the logs, sorted by partition. The caller must not modify the slice.
func (t *logTable) all() []*Log {
	if t.sorted == nil {
		t.sorted = slices.SortedFunc(maps.Values(t.byID),
			func(a, b *Log) int { return a.id.Compare(b.id) })
	}
	return t.sorted
}
