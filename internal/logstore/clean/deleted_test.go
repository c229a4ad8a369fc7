package clean

import (
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// TestDeletedRecordsAreRemovedFromMixedBatches checks that deleted records are removed even if
// their batch also contains live records. It covers batches with all their records, whose offsets
// follow from the base offset, and batches that earlier passes have rewritten, whose offsets the
// pass has to read. The segment is rewritten even if this frees little space.
func TestDeletedRecordsAreRemovedFromMixedBatches(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		l := newLog(t)
		l.job.Rules.MaxGarbagePercent = 95
		l.batch(codec, record.Identity{ProducerID: -1}, "a=1", "b=1", "c=1", "d=1", "e=1", "f=1")
		l.put("b=2", "a=2")
		l.roll()
		l.job.LogStart = 3
		if stats := l.pass(); stats.RecordsRemoved != 3 || stats.ReclaimedBytes <= 0 {
			t.Errorf("%s: stats %+v", codec, stats)
		}
		l.want("3:d=1 4:e=1 5:f=1 6:b=2 7:a=2")
		if stats := l.pass(); stats.SegmentsRewritten != 0 {
			t.Errorf("%s: rewritten again: %+v", codec, stats)
		}
		l.job.LogStart = 5
		if stats := l.pass(); stats.RecordsRemoved != 2 {
			t.Errorf("%s: stats %+v", codec, stats)
		}
		l.want("5:f=1 6:b=2 7:a=2")
		l.job.LogStart = 7
		l.pass()
		l.want("7:a=2")
		if b := l.batches()[0]; b.BaseOffset() != 6 || b.NextOffset() != 8 {
			t.Errorf("%s: the batch is [%d, %d)", codec, b.BaseOffset(), b.NextOffset())
		}
	}
}

// TestDeletedRecordsOfAMixedBatchSupersedeNothing checks that deleted records supersede no record,
// and block no tombstone once they are removed.
func TestDeletedRecordsOfAMixedBatchSupersedeNothing(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2", "a", "a=3", "z=1")
	l.put("a=4")
	l.roll()
	l.job.LogStart = 4
	if stats := l.pass(); stats.TombstoneCleanOffset != l.next {
		t.Errorf("stats %+v", stats)
	}
	l.want("4:z=1 5:a=4")
}

// TestDeletedRecordsAreEstimatedGarbage checks that an estimate counts the deleted records of a
// mixed batch.
func TestDeletedRecordsAreEstimatedGarbage(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1", "c=1", "d=1")
	l.put("z=1")
	l.roll()
	l.job.LogStart = 3
	e, err := EstimateGarbage(t.Context(), l.whole())
	l.must(err)
	if e.GarbageRecords != 3 || e.GarbageBytes <= 0 {
		t.Errorf("estimate %+v", e)
	}
}
