package clean

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// TestF6WrongSidecarIsRebuiltBeforeAnythingIsRemoved checks a pass over a segment whose sidecar
// contains wrong hashes, which make a live record look superseded. The pass must detect this when
// it compares decoded records with the sidecar (F6). It must remove nothing, rebuild the sidecar
// and fail. The next pass succeeds.
func TestF6WrongSidecarIsRebuiltBeforeAnythingIsRemoved(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "b=1")
	l.put("c=1")
	l.roll()
	l.put("a=2", "d=1")
	l.roll()
	// The keys in the first segment's sidecar are hashed with another secret. Only a bug could
	// cause this, because the salt id is correct.
	wrong := keys.NewHasher([16]byte{9})
	l.job.Env.OpenSidecar = func(ctx context.Context, s *segment.Segment,
		opts SidecarOptions) (*keys.Reader,
		error) {
		if s.Base() != 0 || opts.Rebuild {
			return l.sidecar(ctx, s, opts)
		}
		name := "/" + segment.Name(0, keys.Extension, "")
		spool := keys.NewSpool(l.fsys, "/spool", 0, l.salt)
		collector := keys.Collector{Hasher: wrong}
		l.must(s.Scan(0, func(position int64, b record.Batch) error {
			collector.Reset()
			l.must(b.Records(1<<20, func(r *record.Record) error {
				collector.Add(
					record.RecordKey{
						Key:       []byte(map[string]string{"b": "x"}[string(r.Key)] + "?"),
						BodyBytes: r.BodyBytes(),
					},
				)
				// Use the hash of a key in the next segment, which makes this record look
				// superseded.
				if string(r.Key) == "a" {
					collector.Records[len(collector.Records)-1].Hash = l.salt.Hasher().
						Hash([]byte("d"))
				}
				return nil
			}))
			return spool.Append(keys.Describe(b, position), collector.Records)
		}))
		_, err := keys.Build(ctx, l.fsys, spool, keys.Identity{Base: 0, LogBytes: s.SizeBytes()},
			name, keys.Options{})
		l.must(errors.Join(err, spool.Discard()))
		return keys.Open(l.fsys, name,
			keys.Expect{Identity: keys.Identity{Base: 0, LogBytes: s.SizeBytes()},
				SaltID: l.salt.ID()})
	}
	before := l.content()
	stats, err := l.try(t.Context())
	if !errors.Is(err, ErrSidecar) || stats.SidecarsRebuilt != 1 {
		t.Fatalf("error %v, stats %+v, want %v and one rebuilt sidecar", err, stats, ErrSidecar)
	}
	if l.content() != before || l.commits != 0 {
		t.Fatalf("%d commits, want none and the log unchanged: %t", l.commits,
			l.content() == before)
	}
	if left := l.leftovers(); len(left) > 0 {
		t.Fatalf("leftover files %v, want none", left)
	}
	l.job.Env.OpenSidecar = nil
	l.pass()
	l.want("1:b=1 2:c=1 3:a=2 4:d=1")
}

// TestF13ChangedBatchStopsThePass changes a batch during a pass, after OpenSidecar has compared the
// sidecar with the segment. The pass must detect the change when it reads the batch, and fail.
func TestF13ChangedBatchStopsThePass(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.put("b=1")
	l.roll()
	r, err := l.sidecar(t.Context(), l.segments[0], unthrottled())
	l.must(err)
	defer func() { _ = r.Close() }()
	l.job.Env.OpenSidecar = func(ctx context.Context, s *segment.Segment,
		opts SidecarOptions) (*keys.Reader,
		error) {
		if opts.Rebuild {
			return nil, nil
		}
		return l.sidecar(ctx, s, opts)
	}
	file := l.segments[0].File()
	sum := make([]byte, 1)
	// Read the first byte of the checksum in the header of the first batch. Report changes it after
	// Verify has compared the checksum.
	_, err = file.ReadAt(sum, 17)
	l.must(err)
	l.job.Env.Report = func(p PassProgress) {
		if p.Phase == Rewriting && l.commits == 0 {
			_, err := file.WriteAt([]byte{sum[0] ^ 1}, 17)
			l.must(err)
		}
	}
	if _, err := l.try(t.Context()); !errors.Is(err, ErrSidecar) || l.commits > 0 {
		t.Errorf("error %v after %d commits, want ErrSidecar", err, l.commits)
	}
}

func TestF12ProducerWithALowerLastOffsetStopsThePass(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{ProducerID: 7}, "a=1")
	l.put("a=2")
	l.roll()
	l.job.Env.Producers = func() map[int64]Producer { return producers(map[int64]int64{7: 0}) }
	l.wantFailure(t.Context(), ErrProducersChanged)
}

func TestF16FullDiskIsReported(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.roll()
	free := uint64(10)
	l.job.Env.FreeBytes = func() (uint64, error) { return free, nil }
	l.wantFailure(t.Context(), ErrNoSpace)
	free = 1 << 30
	l.pass()
	l.want("1:a=2")
}

// TestF16GroupWithoutRoomIsSplit checks that if the disk has no space for a group's output, the
// group's chosen segments are rewritten one by one (F16).
func TestF16GroupWithoutRoomIsSplit(t *testing.T) {
	l := newLog(t)
	var want []string
	for i := range 3 {
		l.put(fmt.Sprintf("k%d=%s", i, strings.Repeat("x", 100_000)), fmt.Sprintf("again=%d", i))
		want = append(want, fmt.Sprintf("%d:k%d=%s", 2*i, i, strings.Repeat("x", 100_000)))
		l.roll()
	}
	l.put("again=3")
	l.roll()
	l.job.Env.FreeBytes = func() (uint64, error) { return freeFor(250_000), nil }
	if stats := l.pass(); stats.SegmentsRewritten != 3 || stats.SegmentsNoSpace != 0 ||
		l.commits != 3 {
		t.Errorf("stats %+v, %d commits, want 3", stats, l.commits)
	}
	l.want(strings.Join(append(want, "6:again=3"), " "))
}

// TestX1TombstonesAreRemovedBelowTheReplicatedProgressOnly checks that a tombstone above the
// replicated cleaning progress remains (X1). After the progress has passed it, the tombstone
// remains for one more retention (X3).
func TestX1TombstonesAreRemovedBelowTheReplicatedProgressOnly(t *testing.T) {
	l := newLog(t)
	l.job.CleaningProgress = CleaningProgress{{Below: 1}}
	l.put("a")
	l.end(7, true)
	l.put("b")
	l.put("z=1")
	l.roll()
	for range 3 {
		l.pass()
		l.now = l.now.Add(time.Hour)
	}
	l.wantData(" 2:b= 3:z=1")
	if l.markers() != "[1]" {
		t.Errorf("markers at %s", l.markers())
	}
	if stats := l.pass(); stats.AwaitsReplicasAt != 1 ||
		stats.NextPass.Before(l.now.Add(l.job.Rules.TombstoneRetention)) {
		t.Errorf("awaits replicas at %d, next pass at %v", stats.AwaitsReplicasAt, stats.NextPass)
	}
	l.job.CleaningProgress = l.job.CleaningProgress.Add(4, l.now.Add(-59*time.Minute), time.Hour)
	due := time.UnixMilli(l.job.CleaningProgress[1].SinceMs).Add(time.Hour)
	l.now = due.Add(-time.Millisecond)
	if stats := l.pass(); stats.AwaitsReplicasAt != -1 || !stats.NextPass.Equal(due) {
		t.Errorf("awaits replicas at %d, next pass at %v, want %v", stats.AwaitsReplicasAt,
			stats.NextPass, due)
	}
	l.wantData(" 2:b= 3:z=1")
	l.now = due
	l.pass()
	l.wantData(" 3:z=1")
	if l.markers() != "[]" {
		t.Errorf("markers at %s", l.markers())
	}
}

func TestF7SegmentThatBlocksATombstoneIsRewrittenInTime(t *testing.T) {
	l := newLog(t)
	// Allow 90 percent of garbage, so that no segment is rewritten only because of its garbage.
	l.job.Rules.MaxGarbagePercent, l.job.Rules.SegmentBytes = 90, 10_000
	l.fill("cold", 30)
	l.put("a=1")
	l.roll()
	l.put("a")
	l.fill("warm", 30)
	l.roll()
	stats := l.pass()
	if stats.SegmentsRewritten != 0 || !stats.NextPass.Equal(l.now.Add(2*time.Hour)) {
		t.Fatalf("next pass %s, stats %+v", stats.NextPass, stats)
	}
	l.now = l.now.Add(2 * time.Hour)
	if stats := l.pass(); stats.SegmentsRewritten != 1 {
		t.Errorf("stats %+v", stats)
	}
	l.now = l.now.Add(time.Hour)
	if stats := l.pass(); stats.TombstonesRemoved != 1 {
		t.Errorf("stats %+v", stats)
	}
	if strings.Contains(l.content(), ":a") {
		t.Errorf("the tombstone remains in %s", l.content())
	}
}

// TestI5SupersededRecordIsRemovedWithinMaxLag checks that a segment with a record that has been
// superseded for MaxLag is rewritten, even if this frees little space (KIP-354).
func TestI5SupersededRecordIsRemovedWithinMaxLag(t *testing.T) {
	l := newLog(t)
	l.job.Rules = Rules{MaxGarbagePercent: 90, MaxLag: 10 * time.Hour, SegmentBytes: 10_000}
	setModTimes := func() {
		for _, s := range l.segments {
			l.must(s.SetModTime(l.now))
		}
	}
	l.fill("cold", 30)
	l.put("a=1")
	setModTimes()
	l.roll()
	l.now = l.now.Add(time.Hour)
	l.put("a=2")
	l.fill("warm", 30)
	l.must(l.active().SetModTime(l.now))
	superseded := l.now
	l.roll()
	stats := l.pass()
	if stats.SegmentsRewritten != 0 ||
		stats.NextPass.Sub(superseded.Add(10*time.Hour)).Abs() > time.Second {
		t.Fatalf("next pass %s, stats %+v", stats.NextPass, stats)
	}
	l.now = stats.NextPass
	if stats := l.pass(); stats.SegmentsRewritten != 1 || stats.RecordsRemoved != 1 {
		t.Errorf("stats %+v", stats)
	}
}

func TestRecordsBelowTheLogStartAreRemovedFromTheFile(t *testing.T) { // as after DeleteRecords
	l := newLog(t)
	l.job.Rules.MaxGarbagePercent = 90
	l.put("a=1")
	l.put("b=1")
	l.fill("x", 20)
	l.roll()
	l.job.LogStart = 2
	l.pass()
	if got := l.content(); strings.Contains(got, ":a") || strings.Contains(got, ":b") ||
		!strings.HasPrefix(got, "2:x0") {
		t.Errorf("log contains %s", got)
	}
	if stats := l.pass(); stats.SegmentsRewritten != 0 {
		t.Errorf("a second pass rewrote segments: %+v", stats)
	}
}

// TestUniqueKeysCauseNoRewrite checks that unique keys cause no rewrite, as
// docs/internals/cleaner.md guarantees.
func TestUniqueKeysCauseNoRewrite(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 100_000
	for s := range 5 {
		l.many(2000, func(i int) string { return fmt.Sprintf("k%d", s*2000+i) })
		l.roll()
	}
	stats := l.pass()
	if stats.LogWrittenBytes != 0 || stats.SegmentsRewritten != 0 || stats.SegmentsUntouched != 5 {
		t.Errorf("stats %+v", stats)
	}
	l.scans = 0
	if stats := l.pass(); l.scans != 0 || stats.LogReadBytes != 0 || stats.SidecarReadBytes == 0 {
		t.Errorf("with existing sidecars: %d scans, %+v", l.scans, stats)
	}
}

// TestF8RepublicationReadsNoDeadBatch checks the example in docs/internals/cleaner.md: all keys are
// published again, and the older records are removed without being read.
func TestF8RepublicationReadsNoDeadBatch(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 100_000
	for range 2 {
		for range 4 {
			base := l.next
			l.many(2000, func(i int) string { return fmt.Sprintf("k%d", (base+int64(i))%8000) })
			l.roll()
		}
	}
	// Build the sidecars before the pass, as a leader does during appends.
	for _, s := range l.segments[:8] {
		r, err := l.sidecar(t.Context(), s, unthrottled())
		l.must(err)
		l.must(r.Close())
	}
	var size int64
	for _, s := range l.segments {
		size += s.SizeBytes()
	}
	stats := l.pass()
	if stats.LogReadBytes > size/100 || stats.LogWrittenBytes != 0 ||
		stats.RecordsRemoved != 8000 || stats.ReclaimedBytes < size*2/5 {
		t.Errorf("log of %d bytes: %+v", size, stats)
	}
}

func TestOutputHasTheSidecarOfItsSources(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 3000
	for i := range 6 {
		l.put("same=1", fmt.Sprintf("t%d", i), "=none")
		l.fill(fmt.Sprintf("k%d-", i%3), 20)
		l.roll()
	}
	l.pass()
	l.scans = 0
	l.pass()
	if l.scans != 0 {
		t.Errorf("%d sidecars were rebuilt from the data after a pass", l.scans)
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		derived, err := l.sidecar(t.Context(), s, unthrottled())
		l.must(err)
		before := derived.Counts()
		l.must(derived.Close())
		opts := unthrottled()
		opts.Rebuild = true
		scanned, err := l.sidecar(t.Context(), s, opts)
		l.must(err)
		got := scanned.Counts()
		// A rebuilt record's size may differ by a few bytes, because its timestamp delta differs.
		got.BodyBytes = before.BodyBytes
		if got != before || scanned.Identity() != derived.Identity() {
			t.Errorf("segment %d: %+v derived, %+v scanned", s.Base(), before, scanned.Counts())
		}
		l.must(scanned.Close())
	}
}

func TestDenseCodecAppliesToAllOutput(t *testing.T) {
	l := newLog(t)
	l.job.Rules.DenseCodec = &Codec{compress.Zstd, 19}
	l.batch(compress.LZ4, record.Identity{ProducerID: -1}, "a=1", "b=1")
	l.batch(compress.LZ4, record.Identity{ProducerID: -1}, "c=1", "a=2")
	l.roll()
	l.batch(compress.LZ4, record.Identity{ProducerID: -1}, "d=1")
	l.roll()
	before := l.records()
	l.pass()
	l.want("1:b=1 2:c=1 3:a=2 4:d=1")
	for i, b := range l.batches() {
		if b.Codec() != compress.Zstd {
			t.Errorf("codec of batch %d is %s, want zstd", i, b.Codec())
		}
	}
	for offset, r := range l.records() {
		if before[offset] != r {
			t.Errorf("offset %d was %q, is %q", offset, before[offset], r)
		}
	}
	if stats := l.pass(); stats.SegmentsRewritten != 0 {
		t.Errorf("a second pass rewrote segments: %+v", stats)
	}
}

func TestInvalidTimestampsDoNotAffectThePass(t *testing.T) { // in 2099, and missing (-1)
	l := newLog(t)
	l.job.Rules.MaxLag = time.Hour
	today := l.now
	l.now = time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	l.put("a=1", "b=1")
	l.roll()
	l.now = time.UnixMilli(-1)
	l.put("a=2")
	l.roll()
	l.now = today
	l.pass()
	l.want("1:b=1 2:a=2")
}
