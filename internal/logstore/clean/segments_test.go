package clean

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// fill appends n batches, each with one record of about 100 bytes, and with the keys prefix0,
// prefix1 and so on.
func (l *fakeLog) fill(prefix string, n int) {
	l.t.Helper()
	for i := range n {
		l.put(fmt.Sprintf("%s%d=%s", prefix, i, strings.Repeat("v", 40)))
	}
}

func (l *fakeLog) bases() (all []int64) {
	for _, s := range l.segments {
		all = append(all, s.Base())
	}
	return all
}

// TestSegmentsWithoutGarbageAreNotRewritten checks that a segment without garbage is not rewritten,
// as docs/internals/cleaner.md guarantees.
func TestSegmentsWithoutGarbageAreNotRewritten(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 4000
	l.fill("a", 20) // offsets [0, 20)
	l.roll()
	l.fill("b", 20) // offsets [20, 40): one of these records becomes garbage
	l.roll()
	l.fill("c", 20)
	l.roll()
	l.put("b5=new")
	l.fill("d", 20)
	l.roll()
	first, third := l.segments[0], l.segments[2]
	stats := l.pass()
	if stats.SegmentsRewritten != 1 || l.segments[0] != first || l.segments[2] != third {
		t.Errorf("%d segments rewritten, bases %v", stats.SegmentsRewritten, l.bases())
	}
	if stats.RecordsRemoved != 1 || stats.ReclaimedBytes <= 0 || stats.LogWrittenBytes > 4000 {
		t.Errorf("stats %+v", stats)
	}
}

func TestI30NeighboursAreMergedWhileTheirLiveBytesFitOneSegment(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 4000
	for range 6 { // six segments of 20 records; the last one has the latest record of every key
		l.fill("k", 20)
		l.roll()
	}
	last := l.segments[5]
	size := l.segments[0].SizeBytes()
	if stats := l.pass(); stats.LogReadBytes > 6*size+100 {
		t.Errorf("%d bytes read of six segments of %d: fully dead batches were read again",
			stats.LogReadBytes, size)
	}
	// The first five segments contain no live record and are merged into one segment. The sixth one
	// contains no garbage and is too large to be merged.
	if got := fmt.Sprint(l.bases()); got != "[0 100 120]" || l.segments[1] != last {
		t.Errorf("bases %s, want [0 100 120] with the second segment not rewritten", got)
	}
	l.want(strings.TrimSpace(func() (s string) {
		for i := range 20 {
			s += fmt.Sprintf("%d:k%d=%s ", 100+i, i, strings.Repeat("v", 40))
		}
		return s
	}()))
}

func TestI30GroupFitsOneSegment(t *testing.T) {
	l := newLog(t)
	l.fill("a", 10)
	l.put("x=1")
	l.roll()
	l.fill("b", 10)
	l.put("x=2")
	l.roll()
	l.fill("c", 10)
	l.put("x=3", "x=4")
	l.roll()
	l.job.Rules.SegmentBytes = 2 * l.segments[0].SizeBytes()
	l.pass()
	if got := fmt.Sprint(l.bases()); got != "[0 22 34]" || l.commits != 2 {
		t.Errorf("bases %s, want the first two merged and the third alone", got)
	}
	for _, s := range l.segments {
		if s.SizeBytes() > l.job.Rules.SegmentBytes {
			t.Errorf("segment %d has %d bytes", s.Base(), s.SizeBytes())
		}
	}
}

// TestI30OffsetsOfAGroupFitOneSegment checks adjacent segments that cannot be merged, because the
// last offset would be more than 2^31-1 above the base offset of the merged segment (KAFKA-2024,
// KAFKA-5413, KAFKA-6264).
func TestI30OffsetsOfAGroupFitOneSegment(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.next = math.MaxInt32 - 1
	l.put("a=3") // this segment covers [0, 2^31-1)
	l.roll()
	l.put("b=1", "b=2")
	l.roll()
	l.next = 1 << 32
	l.roll()
	l.put("c=1", "c=2")
	l.roll()
	l.pass()
	l.want(fmt.Sprintf("%d:a=3 %d:b=2 %d:c=2", math.MaxInt32-1, math.MaxInt32+1, int64(1<<32)+1))
	for _, s := range l.segments {
		if s.NextOffset()-1-s.Base() > math.MaxInt32 {
			t.Errorf("segment %d extends to offset %d", s.Base(), s.NextOffset())
		}
	}
}

// TestI31OutputRollsBeforeItExceedsTheSegmentSize checks rebuilt batches that are larger than the
// original batches, because they are not compressed (KAFKA-20036).
func TestI31OutputRollsBeforeItExceedsTheSegmentSize(t *testing.T) {
	l := newLog(t)
	l.job.Rules.KeepCodec, l.job.Rules.Codec.Type = false, compress.None
	for i := range 40 {
		value := strings.Repeat("x", 200)
		l.batch(compress.Zstd, record.Identity{ProducerID: -1}, fmt.Sprintf("k%d=%s", i, value),
			"same=1", fmt.Sprintf("l%d=%s", i, value))
	}
	l.roll()
	l.job.Rules.SegmentBytes = l.segments[0].SizeBytes()
	before := l.records()
	stats := l.pass()
	if len(l.segments) < 4 || l.segments[0].Base() != 0 {
		t.Errorf("bases %v: the uncompressed data cannot fit one segment", l.bases())
	}
	for _, s := range l.segments {
		if s.SizeBytes() > l.job.Rules.SegmentBytes {
			t.Errorf("segment %d has %d bytes, %d are allowed", s.Base(), s.SizeBytes(),
				l.job.Rules.SegmentBytes)
		}
	}
	if stats.ReclaimedBytes != 0 {
		t.Errorf("%d bytes reclaimed by a rewrite that enlarged the segment, want 0",
			stats.ReclaimedBytes)
	}
	for offset, r := range l.records() {
		if before[offset] != r {
			t.Errorf("offset %d was %q, is %q", offset, before[offset], r)
		}
	}
}

func TestI32OutputHasTheBaseAndTimeOfItsSources(t *testing.T) {
	l := newLog(t)
	l.put("a=1")
	l.roll()
	l.put("a=2", "a=3")
	l.roll()
	modified := time.UnixMilli(1_234_567_000)
	l.must(l.segments[1].SetModTime(modified))
	wantMs, wantOffset := l.segments[1].MaxTimestamp()
	l.pass()
	s := l.segments[0]
	ms, offset := s.MaxTimestamp()
	if s.Base() != 0 || !s.ModTime().Equal(modified) {
		t.Errorf("base %d, time %v, want 0 and %v", s.Base(), s.ModTime(), modified)
	}
	if ms != wantMs || offset != wantOffset {
		t.Errorf("max timestamp %d at %d, want %d at %d", ms, offset, wantMs, wantOffset)
	}
}

// TestSmallNeighboursAreMergedAndLargeSegmentsAreNot checks that a segment counts as small if it is
// at most a sixteenth of a full segment (docs/internals/cleaner.md).
func TestSmallNeighboursAreMergedAndLargeSegmentsAreNot(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 100_000
	for i := range 10 {
		l.fill(fmt.Sprintf("s%d-", i), 5)
		l.roll()
	}
	l.fill("large", 100)
	l.roll()
	if stats := l.pass(); stats.SegmentsRewritten != 10 || stats.RecordsRemoved != 0 {
		t.Errorf("stats %+v", stats)
	}
	if got := fmt.Sprint(l.bases()); got != "[0 50 150]" {
		t.Errorf("bases %s", got)
	}
	if stats := l.pass(); stats.SegmentsRewritten != 0 {
		t.Errorf("a second pass rewrote segments: %+v", stats)
	}
}

// TestSegmentsFarApartInTimeAreNotMerged checks that old records are not merged with much younger
// records (KIP-71). Retention deletes a segment when its newest record has expired, so a merge
// would keep the old records in the log.
func TestSegmentsFarApartInTimeAreNotMerged(t *testing.T) {
	l := newLog(t)
	l.job.Rules.TimestampSpanMax = 10 * time.Minute
	for i := range 8 { // one segment every four minutes
		l.put(fmt.Sprintf("k%d=1", i), "hot=1")
		l.roll()
		l.now = l.now.Add(4 * time.Minute)
	}
	l.put("z=1")
	l.roll()
	for range 5 { // repeated passes must not merge the segments gradually
		l.pass()
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		oldest, ok := s.FirstTimestamp()
		if newest, _ := s.MaxTimestamp(); ok &&
			newest-oldest > l.job.Rules.TimestampSpanMax.Milliseconds() {
			t.Errorf("segment %d spans %d ms, more than the limit", s.Base(), newest-oldest)
		}
	}
	if n := len(l.segments); n < 4 || n > 6 {
		t.Errorf("%d segments of 10 remain, want 4 to 6", n)
	}
}

func TestSegmentWithoutLiveRecordsBecomesEmpty(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 4000
	l.fill("k", 20)
	l.roll()
	// This segment is not small and contains no garbage, so it separates its neighbours.
	l.fill("x", 28)
	l.roll()
	l.fill("k", 20)
	l.roll()
	l.pass()
	if l.segments[0].SizeBytes() != 0 || l.segments[0].Base() != 0 || len(l.segments) != 4 {
		t.Errorf("bases %v, the first with %d bytes", l.bases(), l.segments[0].SizeBytes())
	}
	if stats := l.pass(); stats.SegmentsRewritten != 0 {
		t.Errorf("an empty segment was rewritten again: %+v", stats) // KAFKA-12889
	}
}
