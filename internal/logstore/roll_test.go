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

// TestAppendRollsWhenIndexIsFull checks that an append rolls the log if an index has no space for
// the next batch, although the segment is far below its size limit. One entry of the time index is
// reserved for the seal. Every segment can still be read and sealed.
func TestAppendRollsWhenIndexIsFull(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 30 }))
	log.env.segments.IndexIntervalBytes, log.env.segments.IndexBytesMax = 1,
		5*segment.TimeEntryBytes
	fill(t, log, 1)
	rollNow(t, log) // gives later segments the small indexes
	for range 30 {
		// Each timestamp is larger than the previous one. Otherwise the time index would get no
		// entry, and the offset index has space for more entries.
		position := epoch0.UnixMilli() + log.LogEnd()
		appendAt(t, log, time.UnixMilli(position))
	}
	if got := bases(log); !slices.Equal(got, []int64{0, 1, 6, 11, 16, 21, 26}) {
		t.Errorf("segments begin at %v", got)
	}
	if err := log.disk.Flush(); err != nil {
		t.Errorf("seal: %v", err)
	}
	if got := readKeys(t, log, 0); len(got) != 31 {
		t.Errorf("%d records are read", len(got))
	}
}

// TestAppendRollsWhenOffsetIsOutOfRange checks that an append rolls the log if the batch is more
// than 2^31 offsets above the segment's base offset, however small the segment is, because relative
// offsets have 31 bits. Only a log that is replicated from a cleaned leader has such offsets.
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
	if err := log.disk.Flush(); err != nil {
		t.Errorf("seal: %v", err)
	}
}

// TestIndexSettingsOfTopic checks that the topic's settings determine the index size at which the
// log rolls, and the interval between index entries.
func TestIndexSettingsOfTopic(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(func(s *topicconfig.Settings) {
		s.SegmentBytes, s.IndexIntervalBytes, s.SegmentIndexBytes = 1<<30, 0, 1024
	}))
	fill(t, log, 1)
	rollNow(t, log) // Create made the first segment before the log was configured
	for range 200 {
		position := epoch0.UnixMilli() + log.LogEnd()
		appendAt(t, log, time.UnixMilli(position))
	}
	// An index has an entry for each batch except the first. 1024 bytes are 85 time index entries,
	// one of which is reserved for the seal.
	if got := bases(log); !slices.Equal(got, []int64{0, 1, 86, 171}) {
		t.Errorf("segments begin at %v", got)
	}
	if got := readKeys(t, log, 0); len(got) != 201 {
		t.Errorf("%d records are read", len(got))
	}
}

// TestJitterIsBounded checks that a segment's jitter is neither negative nor above the configured
// maximum, and varies from segment to segment.
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
