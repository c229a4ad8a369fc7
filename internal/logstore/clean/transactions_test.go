package clean

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// data returns the log's records like content, but without control batches, whose keys are binary.
func (l *fakeLog) data() string {
	l.t.Helper()
	all := ""
	for _, b := range l.batches() {
		if b.Control() {
			continue
		}
		l.must(b.Records(1<<20, func(r *record.Record) error {
			all += fmt.Sprintf(" %d:%s=%s", r.Offset, r.Key, r.Value)
			return nil
		}))
	}
	return all
}

// markers returns the offsets of the control batches.
func (l *fakeLog) markers() string {
	l.t.Helper()
	all := []int64{}
	for _, b := range l.batches() {
		if b.Control() {
			all = append(all, b.BaseOffset())
		}
	}
	return fmt.Sprint(all)
}

func (l *fakeLog) wantData(want string) {
	l.t.Helper()
	if got := l.data(); got != want {
		l.t.Errorf("log contains%s, want%s", got, want)
	}
}

func TestI11AbortedRecordsAreRemovedAndSupersedeNothing(t *testing.T) { // KAFKA-5196
	l := newLog(t)
	l.put("a=1", "b=1")                  // 0, 1
	l.txn(7, compress.Zstd, "a=2", "c=") // 2, 3
	l.end(7, false)                      // 4
	// Offset 5 is a later transaction of the same producer, which is committed.
	l.txn(7, compress.None, "b=2")
	l.end(7, true) // 6
	l.roll()
	l.pass()
	l.wantData(" 0:a=1 5:b=2")
}

func TestI12UserKeysThatLookLikeMarkersAreKeys(t *testing.T) { // KAFKA-14055
	l := newLog(t)
	l.txn(7, compress.None, "a=1")
	l.end(7, true) // offset 1; the key of the marker is the four bytes 00 00 00 01
	l.put("\x00\x00\x00\x01=user", "\x00\x00\x00\x00=user")
	l.roll()
	l.pass()
	if got := l.markers(); got != "[1]" {
		t.Errorf("markers at %s", got)
	}
	l.put("\x00\x00\x00\x01=later")
	l.roll()
	l.pass()
	if got := l.markers(); got != "[1]" || len(l.records()) != 4 {
		t.Errorf("markers at %s, %d records", got, len(l.records()))
	}
}

// TestI20MarkerIsRemovedOneRetentionAfterTheLastBatchOfItsTransaction checks that a marker is
// removed one retention after a pass has removed the last batch of the marker's transaction
// (KAFKA-8351).
func TestI20MarkerIsRemovedOneRetentionAfterTheLastBatchOfItsTransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprint(commit), func(t *testing.T) {
			l := newLog(t)
			l.txn(7, compress.None, "a=1") // 0
			l.end(7, commit)               // 1
			l.put("a=2")
			l.put("z=1")
			l.roll()
			l.pass() // removes the record; only the marker remains of its transaction
			l.wantData(" 2:a=2 3:z=1")
			for range 2 { // the first of these passes starts the marker's retention
				if got := l.markers(); got != "[1]" {
					t.Fatalf("markers at %s", got)
				}
				l.pass()
			}
			l.now = l.now.Add(time.Hour - time.Millisecond)
			l.pass()
			if got := l.markers(); got != "[1]" {
				t.Fatalf("markers at %s, removed before the end of the retention", got)
			}
			l.now = l.now.Add(time.Millisecond)
			if stats := l.pass(); stats.MarkersRemoved != 1 || l.markers() != "[]" {
				t.Errorf("markers at %s, stats %+v", l.markers(), stats)
			}
		})
	}
}

func TestI20MarkerRemainsWithAnEmptyBatchOfItsTransaction(t *testing.T) {
	l := newLog(t)
	// The batch at offset 0 remains without records, because it is its producer's last batch.
	l.txn(7, compress.None, "a=1")
	l.end(7, true)
	l.put("a=2", "z=1")
	l.roll()
	l.job.Producers = producers(map[int64]int64{7: 0})
	for range 5 {
		l.pass()
		l.now = l.now.Add(time.Hour)
	}
	if got := l.markers(); got != "[1]" {
		t.Errorf("markers at %s", got)
	}
}

func TestI21TransactionsSpanSegments(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 300
	l.put("a=1", "b=1", "c=1")
	l.txn(7, compress.None, "a=2") // 3
	l.roll()
	l.txn(8, compress.None, "b=2") // 4
	l.txn(7, compress.None, "c=2") // 5
	l.roll()
	l.end(8, true)
	l.roll()
	l.end(7, false)
	l.put("z=1")
	l.roll()
	l.pass()
	l.wantData(" 0:a=1 2:c=1 4:b=2 8:z=1")
}

// TestAbortedTransactionOverSegmentsCleanedInParts checks an aborted transaction that spans several
// segments, which are cleaned in parts and in any order. It stays aborted (KAFKA-8351, KAFKA-13727,
// KAFKA-20036): its records supersede nothing, none of them remains as committed data, and the
// index has an entry as long as one of the transaction's batches remains.
func TestAbortedTransactionOverSegmentsCleanedInParts(t *testing.T) {
	for parts := 1; parts <= 4; parts++ {
		l := newLog(t)
		l.job.Rules.SegmentBytes = 300
		l.put("a=1", "b=1", "c=1", "d=1")
		for _, key := range []string{"a", "b", "c"} {
			l.txn(7, compress.None, key+"=aborted")
			l.roll()
			l.fill("x"+key, 3)
		}
		l.end(7, false)
		l.roll()
		l.put("z=1")
		l.roll()
		for part := range parts { // each pass has space for another part of the log
			l.job.Env.FreeBytes = func() (uint64, error) {
				return freeFor(uint64(400 * (part + 1))), nil
			}
			if _, err := l.try(t.Context()); err != nil && !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
			if data := l.data(); strings.Contains(data, "aborted") && len(l.aborted()) != 1 {
				t.Fatalf("%d parts: index entries %v, log contains%s", parts, l.aborted(), data)
			}
			l.now = l.now.Add(time.Hour)
		}
		l.job.Env.FreeBytes = nil
		for range 3 {
			l.pass()
			l.now = l.now.Add(time.Hour)
		}
		data := l.data()
		for _, kept := range []string{"0:a=1", "1:b=1", "2:c=1", "3:d=1"} {
			if !strings.Contains(data, kept) {
				t.Errorf("%d parts: %s was superseded by an aborted record:%s", parts, kept, data)
			}
		}
		if strings.Contains(data, "aborted") || len(l.aborted()) != 0 {
			t.Errorf("%d parts: index entries %v, log contains%s", parts, l.aborted(), data)
		}
	}
}

// TestI22IndexEntryRemainsWithTheBatchesOfItsTransaction checks an aborted transaction whose marker
// is in another segment than its batch (KAFKA-13727). A pass rewrites only the marker's segment, so
// the batch remains in the log. The transaction's index entry must remain, too. The entry is
// removed once the batch and the marker are removed.
func TestI22IndexEntryRemainsWithTheBatchesOfItsTransaction(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 300 // small enough that the two segments are not merged
	l.fill("live", 30)
	l.txn(7, compress.None, "a=1") // 30
	l.roll()
	l.end(7, false) // 31
	l.put("b=1", "b=2")
	l.roll()
	l.put("z=1")
	l.roll()
	// The disk has space for a copy of the second segment, but not of the first one.
	l.job.Env.FreeBytes = func() (uint64, error) { return freeFor(2000), nil }
	stats := l.pass()
	if stats.SegmentsRewritten != 1 || stats.SegmentsNoSpace != 1 {
		t.Errorf("%d segments rewritten, %d without space, want 1 and 1", stats.SegmentsRewritten,
			stats.SegmentsNoSpace)
	}
	if !strings.Contains(l.data(), " 30:a=1 33:b=2") || len(l.aborted()) != 1 {
		t.Errorf("the index contains %v, want one entry; log contains%s", l.aborted(), l.data())
	}
	l.job.Env.FreeBytes = nil
	l.pass() // removes the batch
	l.pass() // finds that the marker's transaction has no remaining batch
	l.now = l.now.Add(time.Hour)
	l.pass() // removes the marker
	if l.markers() != "[]" || len(l.aborted()) != 0 {
		t.Errorf("markers at %s and index entries %v remain, want none", l.markers(), l.aborted())
	}
}

// TestI22IndexEntryIsRemovedWithItsMarker checks that the index entry of an aborted transaction is
// removed together with the marker. A consumer skips the batches of a producer from the start of an
// aborted transaction to its marker. If the marker was removed but the index still had an entry for
// the transaction, the consumer would skip everything that the producer commits later. Found by
// TestHistoriesAgainstLedger.
func TestI22IndexEntryIsRemovedWithItsMarker(t *testing.T) {
	l := newLog(t)
	l.job.Rules.SegmentBytes = 300 // small enough that the two segments are not merged
	l.put("live=1")
	l.txn(7, compress.None, "a=1", "b=1") // 1, 2
	l.put("b=2")
	l.roll()
	l.end(7, false) // 4
	l.txn(7, compress.None, "c=1")
	l.end(7, true)
	l.roll()
	l.pass() // removes the aborted batch; later passes do not rewrite its segment
	l.pass() // finds that the marker's transaction has no remaining batch
	l.now = l.now.Add(time.Hour)
	l.pass()
	if got := l.markers(); got != "[6]" || len(l.aborted()) != 0 || len(l.segments) < 3 {
		t.Errorf("markers at %s, index %v, %d segments", got, l.aborted(), len(l.segments))
	}
}

// TestI23MarkersWithoutDataAreRemoved checks that markers without data are removed. In Kafka's
// logs, thousands of them remained (KAFKA-10702).
func TestI23MarkersWithoutDataAreRemoved(t *testing.T) {
	l := newLog(t)
	for i := range 500 {
		l.end(int64(i%50), i%2 == 0)
	}
	l.put("z=1")
	l.roll()
	l.pass()
	l.now = l.now.Add(time.Hour)
	if stats := l.pass(); stats.MarkersRemoved != 500 || len(l.batches()) != 1 {
		t.Errorf("%d batches, stats %+v", len(l.batches()), stats)
	}
}

func TestI24OpenTransactionBoundsThePass(t *testing.T) {
	l := newLog(t)
	l.put("a=1", "a=2")
	l.roll()
	l.put("b=1", "b=2")
	l.txn(7, compress.None, "a=3")
	l.roll()
	l.put("a=4")
	l.roll()
	l.pass()
	l.wantData(" 1:a=2 2:b=1 3:b=2 4:a=3 5:a=4")
	l.end(7, true)
	l.roll()
	l.pass()
	l.wantData(" 3:b=2 5:a=4")
}

func TestTransactionThatEndsAboveTheBoundHasItsOutcome(t *testing.T) {
	for _, commit := range []bool{true, false} {
		l := newLog(t)
		l.put("a=1")
		l.txn(7, compress.None, "a=2")
		l.roll()
		l.end(7, commit) // in the active segment
		l.pass()
		want := map[bool]string{true: " 1:a=2", false: " 0:a=1"}[commit]
		l.wantData(want)
	}
}

func TestI25MarkersOfAProducerWithoutDataRemain(t *testing.T) {
	l := newLog(t)
	l.end(7, true)
	l.put("z=1")
	l.roll()
	l.job.Producers = map[int64]Producer{7: {LastOffset: -1}}
	for range 3 {
		l.pass()
		l.now = l.now.Add(time.Hour)
	}
	if l.markers() != "[0]" {
		t.Errorf("markers at %s", l.markers())
	}
	l.job.Producers = nil
	l.pass()
	l.now = l.now.Add(time.Hour)
	l.pass()
	if l.markers() != "[]" {
		t.Errorf("markers at %s", l.markers())
	}
}

// TestF6SampledMarkerMatchesItsSidecar checks that markers are not in the sample of dead batches
// that a rewrite reads and compares with the sidecar, because the sidecar contains no marker keys.
// The test removes a marker whose checksum would select it for the sample. Found by the model.
func TestF6SampledMarkerMatchesItsSidecar(t *testing.T) {
	for ms := start.UnixMilli(); ; ms++ {
		id := record.Identity{ProducerID: 7, LeaderEpoch: -1}
		marker, err := record.AppendMarker(nil, id, ms, record.Control{Type: record.ControlCommit})
		if err != nil {
			t.Fatal(err)
		}
		if record.Batch(marker).CRC()%sampleShare != 0 {
			continue
		}
		l := newLog(t)
		l.appendRaw(marker)
		l.put("z=1")
		l.roll()
		l.pass()
		l.now = l.now.Add(time.Hour)
		if stats := l.pass(); stats.MarkersRemoved != 1 || l.markers() != "[]" {
			t.Errorf("markers at %s, stats %+v", l.markers(), stats)
		}
		return
	}
}
