package logstore

import (
	"math"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// Index full: a segment far from its size is rolled when an index has no room for the next batch,
// one entry of the time index being reserved for the seal; and every segment can still be read and
// sealed.
func TestAppendRollsWhenIndexIsFull(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 30 }))
	log.env.segments.IndexIntervalBytes, log.env.segments.IndexBytesMax = 1,
		5*segment.TimeEntryBytes
	fill(t, log, 1)
	rollNow(t, log) // later segments have the small indexes
	for range 30 {
		// Each with a later timestamp: otherwise the time index gets no entry, and the offset index
		// holds eight.
		at := epoch0.UnixMilli() + log.LogEnd()
		appendAt(t, log, time.UnixMilli(at))
	}
	if got := bases(log); !slices.Equal(got, []int64{0, 1, 6, 11, 16, 21, 26}) {
		t.Errorf("segments begin at %v", got)
	}
	if err := log.flush(); err != nil {
		t.Errorf("seal: %v", err)
	}
	if got := readKeys(t, log, 0); len(got) != 31 {
		t.Errorf("%d records are read", len(got))
	}
}

// Offset range: relative offsets have 31 bits, so a batch that is further from the base begins a
// segment, however small the one before is. Only a log replicated from a cleaned leader gets there.
func TestAppendRollsWhenOffsetIsOutOfRange(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 30 }))
	for _, offset := range []int64{0, math.MaxInt32, math.MaxInt32 + 1, 2 * math.MaxInt32} {
		batch := record.Batch(keyed(t, "k"))
		batch.SetBaseOffset(offset)
		if err := log.AppendReplicated(batch, epoch0); err != nil {
			t.Fatalf("offset %d: %v", offset, err)
		}
	}
	if got := bases(log); !slices.Equal(got, []int64{0, math.MaxInt32 + 1}) {
		t.Errorf("segments begin at %v", got)
	}
	log.AdvanceHighWatermark(log.LogEnd())
	if got := readKeys(t, log, 0); len(got) != 4 {
		t.Errorf("read %v", got)
	}
	if err := log.flush(); err != nil {
		t.Errorf("seal: %v", err)
	}
}

// The topic's own index size ends a segment, and a smaller interval has more entries.
func TestIndexSettingsOfTopic(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.IndexIntervalBytes, s.SegmentIndexBytes = 1<<30, 0, 1024
	}))
	fill(t, log, 1)
	rollNow(t, log) // Create made the first segment before it was configured
	for range 200 {
		at := epoch0.UnixMilli() + log.LogEnd()
		appendAt(t, log, time.UnixMilli(at))
	}
	// An index has an entry for each batch but the first; 1024 bytes hold 85 time entries, one of
	// them reserved.
	if got := bases(log); !slices.Equal(got, []int64{0, 1, 86, 171}) {
		t.Errorf("segments begin at %v", got)
	}
	if got := readKeys(t, log, 0); len(got) != 201 {
		t.Errorf("%d records are read", len(got))
	}
}

// Jitter is at most the configured one, never negative, and not the same for neighbours.
func TestJitterIsBounded(t *testing.T) {
	different := map[time.Duration]bool{}
	for base := range int64(1000) {
		share := jitter(time.Hour, base)
		if share < 0 || share >= time.Hour || jitter(0, base) != 0 {
			t.Fatalf("base %d: %s", base, share)
		}
		different[share.Truncate(time.Minute)] = true
	}
	if len(different) != 60 {
		t.Errorf("1000 segments have jitters in %d of 60 minutes", len(different))
	}
	s := topicconfig.Default()
	s.SegmentAge, s.SegmentJitter = time.Hour, 2*time.Hour
	for base := range int64(100) {
		if age := segmentAge(s, base); age <= 0 || age > time.Hour {
			t.Errorf("base %d: age %s", base, age)
		}
	}
}
