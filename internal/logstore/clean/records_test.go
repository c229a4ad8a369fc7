package clean

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

func TestI10LatestRecordOfEachKeyRemains(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1", "c=1")
	l.put("a=2")
	l.roll()
	l.put("b=2", "d=1")
	l.put("a=3")
	l.roll()
	before := l.records()
	stats := l.pass()
	l.want("2:c=1 4:b=2 5:d=1 6:a=3")
	if stats.RecordsRead != 7 || stats.CleanedTo != 7 {
		t.Errorf("%d records read, cleaned to %d, want 7 and 7", stats.RecordsRead, stats.CleanedTo)
	}
	if stats.RecordsRemoved != 3 || stats.TombstonesRemoved != 0 {
		t.Errorf("%d records and %d tombstones removed, want 3 and 0", stats.RecordsRemoved,
			stats.TombstonesRemoved)
	}
	// I9: the remaining records are unchanged.
	for offset, r := range l.records() {
		if before[offset] != r {
			t.Errorf("offset %d was %q, is %q", offset, before[offset], r)
		}
	}
}

func TestI1ActiveSegmentIsNotReadAndSupersedesNothing(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1")
	l.roll()
	l.put("a=2", "a=3")
	stats := l.pass()
	l.want("0:a=1 1:b=1 2:a=2 3:a=3")
	if stats.RecordsRead != 2 || stats.SegmentsRewritten != 0 || stats.LogWrittenBytes != 0 {
		t.Errorf("stats %+v", stats)
	}
}

func TestI10DirtySectionSupersedesTheCleanSection(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1", "c=1")
	l.roll()
	l.pass()
	l.put("b=2")
	l.roll()
	l.pass()
	l.want("0:a=1 2:c=1 3:b=2")
	l.put("a", "c=2")
	l.roll()
	l.pass()
	l.want("3:b=2 4:a 5:c=2")
}

// TestFirstDirtyInsideASegment checks that the result of a pass does not depend on whether the
// first dirty offset is inside a segment or a batch.
func TestFirstDirtyInsideASegment(t *testing.T) {
	for _, firstDirty := range []int64{0, 1, 3, 4} {
		l := newLog(t)
		l.put("a=1", "b=1", "c=1", "d=1")
		l.roll()
		l.put("a=2", "c=2")
		l.roll()
		l.firstDirty = firstDirty
		l.pass()
		l.want("1:b=1 3:d=1 4:a=2 5:c=2")
	}
}

func TestI12I13RecordsWithoutAKeyAreRemovedAndAnEmptyKeyIsAKey(t *testing.T) {
	l := newLog(t)
	l.put("=x", "a=1", "=y")
	id := record.Identity{BaseOffset: 3, LastOffsetDelta: 1, ProducerID: -1}
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	builder.Reset(id)
	builder.Add(&record.Record{Offset: 3, Key: []byte{}, Value: []byte("old")})
	builder.Add(&record.Record{Offset: 4, Key: []byte{}, Value: []byte("new")})
	built, err := builder.Build(nil)
	l.must(err)
	l.appendRaw(built)
	l.put("=z")
	l.put("b=1")
	l.roll()
	l.put("=remains, above the bound")
	l.pass()
	l.want("1:a=1 4:=new 6:b=1 7:=remains, above the bound")
}

func TestI43LastOffsetsOfBatchesNeverChange(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1", "a=2", "a=3")
	l.put("a=4", "c=1", "a=5")
	l.roll()
	var before []int64
	for _, b := range l.batches() {
		before = append(before, b.BaseOffset(), b.LastOffset())
	}
	l.pass()
	var after []int64
	for _, b := range l.batches() {
		after = append(after, b.BaseOffset(), b.LastOffset())
	}
	if len(before) != 4 || len(after) != 4 {
		t.Fatalf("batches cover %v, and covered %v before, want two batches", after, before)
	}
	if before[1] != after[1] || before[3] != after[3] {
		t.Errorf("batches cover %v, and covered %v before", after, before)
	}
	l.want("1:b=1 5:c=1 6:a=5")
}

// TestI16TombstoneIsRemovedAfterItsRetentionByALaterPass runs the second pass one millisecond
// before the end of the retention, at the end, or one millisecond after it (I16, I17).
func TestI16TombstoneIsRemovedAfterItsRetentionByALaterPass(t *testing.T) {
	for _, wait := range []time.Duration{time.Hour - time.Millisecond, time.Hour,
		time.Hour + time.Millisecond} {
		l := newLog(t)
		l.put("a=1", "b=1")
		l.put("a")
		l.roll()
		stats := l.pass()
		l.want("1:b=1 2:a")
		if want := l.now.Add(time.Hour); !stats.NextPass.Equal(want) {
			t.Errorf("next pass at %v, want %v", stats.NextPass, want)
		}
		l.put("z=1")
		l.roll()
		l.now = l.now.Add(wait)
		stats = l.pass()
		if wait < time.Hour {
			l.want("1:b=1 2:a 3:z=1")
			continue
		}
		l.want("1:b=1 3:z=1")
		if stats.TombstonesRemoved != 1 || !stats.NextPass.IsZero() {
			t.Errorf("stats %+v", stats)
		}
	}
}

func TestI17TombstoneWithoutRetentionIsRemovedByALaterPass(t *testing.T) {
	l := newLog(t)
	l.job.Rules.TombstoneRetention = 0
	l.put("a=1", "a")
	l.put("z=1")
	l.roll()
	l.pass()
	l.want("1:a 2:z=1")
	l.pass()
	l.want("2:z=1")
}

// removableSince returns the removable tombstones in the first segment's .dead file as
// "ordinal@time", for example "1@0s 4@1h0m0s". The time is the time at which the tombstone became
// removable, as a duration since start.
func (l *fakeLog) removableSince() string {
	l.t.Helper()
	content, ok := l.dead[l.segments[0].Base()]
	if !ok {
		return ""
	}
	d, err := DecodeDeadFile(content)
	l.must(err)
	var all []string
	for _, set := range d.Removable {
		for ordinal := range set.All {
			all = append(all, fmt.Sprintf("%d@%s", ordinal, time.UnixMilli(set.SinceMs).Sub(start)))
		}
	}
	return strings.Join(all, " ")
}

func TestX3RetentionStartsInThePassThatRemovesTheOlderValues(t *testing.T) {
	l := newLog(t)
	l.put("a=1")
	l.roll()
	// The tombstone is older than its retention when a pass first reads it. Its age alone does not
	// make the tombstone due.
	l.now = l.now.Add(100 * time.Hour)
	l.put("a")
	l.put("z=1")
	l.roll()
	l.now = l.now.Add(100 * time.Hour)
	stats := l.pass()
	l.want("1:a 2:z=1")
	if got := l.removableSince(); got != "0@200h0m0s" ||
		!stats.NextPass.Equal(l.now.Add(time.Hour)) {
		t.Errorf("removable since %s, next pass at %s", got, stats.NextPass)
	}
	// KIP-534: a pass one millisecond before the delete horizon keeps the tombstone, and a pass at
	// the horizon removes it.
	for _, step := range []time.Duration{time.Hour - time.Millisecond, time.Millisecond} {
		l.want("1:a 2:z=1")
		l.now = l.now.Add(step)
		l.pass()
	}
	l.want("2:z=1")
}

// TestX2TombstoneRemainsAboveAnOlderValue checks that a tombstone remains while an older value of
// its key is in the log. Otherwise the key would reappear (F1).
func TestX2TombstoneRemainsAboveAnOlderValue(t *testing.T) {
	l := newLog(t)
	l.put("a=1")
	l.roll()
	// The batch's delete horizon, which another program has set, has passed long ago. But an older
	// value of the key is still in the log.
	l.batch(compress.None, record.Identity{ProducerID: -1, DeleteHorizonMs: 1}, "a")
	l.put("z=1")
	l.roll()
	l.pass()
	l.want("1:a 2:z=1")
	l.pass()
	l.want("1:a 2:z=1")
	l.now = l.now.Add(time.Hour)
	l.pass()
	l.want("2:z=1")
}

func TestF2DeleteHorizonOfABatchIsALowerBound(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{ProducerID: -1,
		DeleteHorizonMs: start.Add(3 * time.Hour).UnixMilli()}, "a")
	l.put("z=1")
	l.roll()
	l.pass()
	l.now = l.now.Add(2 * time.Hour)
	if stats := l.pass(); !stats.NextPass.Equal(start.Add(3 * time.Hour)) {
		t.Errorf("next pass at %s, want the horizon of the batch", stats.NextPass)
	}
	l.want("0:a 1:z=1")
	l.now = l.now.Add(time.Hour)
	l.pass()
	l.want("1:z=1")
}

func TestF2LostDeadFileRestartsTheRetention(t *testing.T) {
	l := newLog(t)
	l.put("a")
	l.put("z=1")
	l.roll()
	l.pass()
	l.now = l.now.Add(time.Hour)
	clear(l.dead)
	l.pass()
	l.want("0:a 1:z=1")
	l.now = l.now.Add(time.Hour)
	l.pass()
	l.want("1:z=1")
}

func TestF4TruncationInvalidatesTheDeadFile(t *testing.T) {
	l := newLog(t)
	l.put("a")
	l.put("z=1")
	l.roll()
	l.pass()
	l.now = l.now.Add(time.Hour)
	l.epochs = []epochStart{{7, 0}} // the leader epochs below the bound have changed
	l.pass()
	l.want("0:a 1:z=1")
}

// A first truncation starts leader epoch 1, and a pass writes a .dead file in this epoch. A second
// truncation removes epoch 1 from the log. The log must continue in epoch 2 and not again in epoch
// 1, because otherwise the .dead file would still be valid. Found by the model with seed
// 1795287846919434046.
func TestF4SecondTruncationInvalidatesTheDeadFile(t *testing.T) {
	l := newLog(t)
	l.job.Rules.TombstoneRetention = 2 * time.Minute
	l.lead()
	l.put("a")
	l.put("b=1")
	l.put("c=1")
	l.truncate(2)
	l.put("z=1")
	l.roll()
	l.pass()
	if got := l.removableSince(); got != "0@0s" {
		t.Errorf("removable since %s, want 0@0s", got)
	}
	l.now = l.now.Add(time.Minute)
	l.truncate(1)
	l.put("y=1")
	l.put("z=2")
	l.roll()
	l.pass()
	if got := l.removableSince(); got != "0@1m0s" {
		t.Errorf("removable since %s after the second truncation, want 0@1m0s", got)
	}
	l.now = l.now.Add(2*time.Minute - time.Millisecond)
	l.pass()
	l.want("0:a 1:y=1 2:z=2")
	l.now = l.now.Add(time.Millisecond)
	l.pass()
	l.want("1:y=1 2:z=2")
}

func TestBatchGetsOneDeleteHorizonAndKeepsItsTimestamps(t *testing.T) {
	l := newLog(t)
	l.batch(compress.Gzip, record.Identity{ProducerID: -1}, "a=1", "b=1", "c", "a", "d=1")
	l.put("z=1")
	l.roll()
	before := l.records()
	l.pass()
	l.want("1:b=1 2:c 3:a 4:d=1 5:z=1")
	maps.DeleteFunc(before, func(offset int64, _ string) bool { return offset == 0 })
	if after := l.records(); !maps.Equal(before, after) {
		t.Errorf("records are %v, and were %v", after, before)
	}
	horizon, _ := l.batches()[0].DeleteHorizon()
	l.now = l.now.Add(time.Minute)
	if stats := l.pass(); stats.SegmentsRewritten != 0 || stats.NextPass.UnixMilli() != horizon {
		t.Errorf("a batch was rewritten before its delete horizon: %+v", stats)
	}
}

func TestSupersededTombstoneIsRemovedAtOnce(t *testing.T) {
	l := newLog(t)
	l.put("a=1")
	l.put("a")
	l.put("a=2")
	l.roll()
	if stats := l.pass(); !stats.NextPass.IsZero() || stats.TombstonesRemoved != 0 {
		t.Errorf("stats %+v", stats)
	}
	l.want("2:a=2")
}

func TestTombstoneOfAnUnknownKeyIsRemoved(t *testing.T) {
	l := newLog(t)
	l.put("never")
	l.put("z=1")
	l.roll()
	l.pass()
	l.want("0:never 1:z=1")
	l.now = l.now.Add(time.Hour)
	l.pass()
	l.want("1:z=1")
}
