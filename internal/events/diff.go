package events

import (
	"slices"

	"heartwood.dev/heartwood/api/report"
)

// changes returns the rows in after that are new or differ from before, and the base offsets of the
// rows that are missing in after. Both slices are ascending by base offset.
func changes(before, after []report.Segment) (changed []report.Segment, removed []int64) {
	changed, removed = []report.Segment{}, []int64{}
	i := 0
	for n := range after {
		for ; i < len(before) && before[i].Base < after[n].Base; i++ {
			removed = append(removed, before[i].Base)
		}
		if i < len(before) && before[i].Base == after[n].Base {
			i++
			if equal(&before[i-1], &after[n]) {
				continue
			}
		}
		changed = append(changed, after[n])
	}
	for ; i < len(before); i++ {
		removed = append(removed, before[i].Base)
	}
	return changed, removed
}

// equal reports whether two rows have the same JSON.
func equal(a, b *report.Segment) bool {
	return a.Base == b.Base && a.LastOffset == b.LastOffset && a.Bytes == b.Bytes &&
		a.State == b.State && a.BlockedBy == b.BlockedBy && a.Codec == b.Codec &&
		a.Chosen == b.Chosen && a.Forced == b.Forced &&
		same(a.Records, b.Records) && same(a.Tombstones, b.Tombstones) &&
		same(a.NullKeys, b.NullKeys) && same(a.GarbageBytes, b.GarbageBytes) &&
		same(a.GarbageRecords, b.GarbageRecords) && same(a.Counted, b.Counted) &&
		same(a.Oldest, b.Oldest) && same(a.Newest, b.Newest) &&
		slices.EqualFunc(a.Clocks, b.Clocks, equalClocks)
}

func equalClocks(a, b report.TombstoneClock) bool {
	return a.Count == b.Count && a.Since == b.Since && same(a.GoesFrom, b.GoesFrom) &&
		a.WaitsFor == b.WaitsFor && slices.Equal(a.Replicas, b.Replicas)
}

// same reports whether two optional values are equal.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}
