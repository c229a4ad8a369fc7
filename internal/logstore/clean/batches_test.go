package clean

import (
	"bytes"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

func TestI25LastBatchOfAnActiveProducerRemainsEmpty(t *testing.T) {
	l := newLog(t)
	producer := record.Identity{ProducerID: 7, ProducerEpoch: 3, BaseSequence: 40}
	l.batch(compress.Zstd, producer, "a=1", "a=2") // 0, 1
	l.batch(compress.Zstd, record.Identity{ProducerID: 8}, "a=3")
	l.put("a=4")
	l.roll()
	// Producer 8 has a later batch above the bound, so its batch in this log is removable.
	l.job.Producers = producers(map[int64]int64{7: 1, 8: 99, -1: 3})
	l.pass()
	l.want("3:a=4")
	empty := l.batches()[0]
	if len(empty) != record.HeaderBytes {
		t.Errorf("first batch has %d bytes, want a header only", len(empty))
	}
	if empty.ProducerID() != 7 || empty.ProducerEpoch() != 3 || empty.LastSequence() != 41 {
		t.Errorf("first batch has identity %+v and last sequence %d, want 7, epoch 3 and 41",
			record.IdentityOf(empty), empty.LastSequence())
	}
	if empty.BaseOffset() != 0 || empty.LastOffset() != 1 {
		t.Errorf("first batch covers %d to %d, want 0 to 1", empty.BaseOffset(), empty.LastOffset())
	}
	if n := len(l.batches()); n != 2 {
		t.Errorf("%d batches remain, want the empty one and the live one", n)
	}
}

// TestI27LastBatchIsIdentifiedByItsOffset checks a producer that starts its sequence numbers at 0
// again after an epoch bump, so that two of its batches have the same sequence numbers
// (KAFKA-8335).
func TestI27LastBatchIsIdentifiedByItsOffset(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{ProducerID: 7, ProducerEpoch: 0, BaseSequence: 0}, "a=1")
	l.batch(compress.None, record.Identity{ProducerID: 7, ProducerEpoch: 1, BaseSequence: 0}, "a=2")
	l.put("a=3")
	l.put("z=1")
	l.roll()
	l.job.Producers = producers(map[int64]int64{7: 1})
	l.pass()
	l.want("2:a=3 3:z=1")
	all := l.batches()
	if len(all) != 3 {
		t.Fatalf("%d batches, want 3", len(all))
	}
	if all[0].BaseOffset() != 1 || all[0].Count() != 0 || all[0].ProducerEpoch() != 1 {
		t.Errorf("first batch at %d has %d records and epoch %d, want 1, 0 and 1",
			all[0].BaseOffset(), all[0].Count(), all[0].ProducerEpoch())
	}
}

func TestI28EmptyBatchIsRemovedAfterALaterBatchOfItsProducer(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{ProducerID: 7, BaseSequence: 0}, "a=1")
	l.put("a=2", "b=1")
	l.roll()
	l.job.Producers = producers(map[int64]int64{7: 0})
	l.pass()
	l.put("b=2")
	l.put("z=1")
	l.roll()
	l.job.Producers = nil
	l.pass()
	l.want("1:a=2 3:b=2 4:z=1")
	if n := len(l.batches()); n != 3 {
		t.Errorf("%d batches remain, want 3 without the empty one", n)
	}
}

func TestFewEmptyBatchesDoNotCauseARewrite(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{ProducerID: 7, BaseSequence: 0}, "a=1")
	l.fill("live", 100)
	l.put("a=2", "b=1")
	l.roll()
	l.job.Producers = producers(map[int64]int64{7: 0})
	l.pass()
	l.job.Producers = nil
	if stats := l.pass(); stats.SegmentsRewritten != 0 {
		t.Errorf("stats %+v", stats)
	}
}

// TestI29LastRecordBelowTheBoundRemains checks that the last record below the bound remains,
// whatever kind of record it is, because it may be the last record of the log. It does not count as
// garbage, and no pass is planned for it. Once more records are appended, a pass removes it.
func TestI29LastRecordBelowTheBoundRemains(t *testing.T) { // KAFKA-17076
	for name, test := range map[string]struct {
		put                func(l *fakeLog)
		removable          bool
		last, afterAnother string
	}{
		"tombstone": {func(l *fakeLog) { l.put("a", "a") }, true, "2:a", "3:z=1"},
		"only tombstones": {func(l *fakeLog) { l.put("b", "c") }, true, "0:a=1 2:c",
			"0:a=1 3:z=1"},
		"value": {func(l *fakeLog) { l.put("b", "a=2") }, false, "2:a=2", "2:a=2 3:z=1"},
		"without a key": {func(l *fakeLog) { l.put("=1", "=2") }, false, "0:a=1 2:=2",
			"0:a=1 3:z=1"},
		"marker": {func(l *fakeLog) {
			l.txn(7, compress.None, "a")
			l.end(7, false)
		}, true, "0:a=1 2:\x00\x00\x00\x00=\x00\x00\x00\x00\x00\x00", "0:a=1 3:z=1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			l.put("a=1")
			test.put(l)
			l.roll()
			l.job.Rules.TombstoneRetention = 0
			var stats Stats
			for range 4 {
				stats = l.pass()
			}
			l.want(test.last)
			if stats.GarbageBytes != 0 || !stats.NextPass.IsZero() ||
				stats.KeptLastRecord != test.removable {
				t.Errorf("stats %+v", stats)
			}
			l.put("z=1")
			l.roll()
			for range 3 {
				l.pass()
			}
			l.want(test.afterAnother)
		})
	}
}

// TestI29BatchThatEndsAtTheBoundRemainsEmpty checks that the batch that ends at the bound remains
// even if its records must be removed: because they were deleted and no consumer waits for them, or
// because a marker above the bound aborts their transaction.
func TestI29BatchThatEndsAtTheBoundRemainsEmpty(t *testing.T) {
	for name, act := range map[string]func(l *fakeLog){
		"deleted": func(l *fakeLog) {
			l.put("a=1", "b=1")
			l.roll()
			l.job.LogStart = 2
		},
		"aborted": func(l *fakeLog) {
			l.txn(7, compress.None, "a=1", "b=1")
			l.roll()
			l.end(7, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			act(l)
			l.pass()
			if b := l.batches()[0]; b.NextOffset() != 2 || b.Count() != 0 {
				t.Errorf("the first batch ends at %d and has %d records", b.NextOffset(), b.Count())
			}
		})
	}
}

func TestFullyLiveBatchesAreCopiedByteForByte(t *testing.T) {
	l := newLog(t)
	l.job.Rules.KeepCodec, l.job.Rules.Codec.Type, l.job.Rules.Codec.Level = false, compress.LZ4,
		compress.LevelDefault
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		l.batch(codec, record.Identity{ProducerID: int64(codec), LeaderEpoch: 5},
			codec.String()+"=1", codec.String()+"x=1")
	}
	l.put("dead=1", "dead=2")
	l.roll()
	before := l.batches()
	if stats := l.pass(); stats.SegmentsRewritten != 1 {
		t.Fatalf("stats %+v", stats)
	}
	after := l.batches()
	for i := range 5 {
		if !bytes.Equal(before[i], after[i]) {
			t.Errorf("batch %d was changed", i)
		}
	}
	if after[5].Codec() != compress.LZ4 {
		t.Errorf("codec of the rebuilt batch is %s, want lz4", after[5].Codec())
	}
}

// TestRebuiltBatchesGetTheTopicsCodecUnlessKept checks that a batch with any codec is rebuilt
// correctly in a topic with any codec (KAFKA-3252, KAFKA-4298).
func TestRebuiltBatchesGetTheTopicsCodecUnlessKept(t *testing.T) {
	for from := compress.None; from <= compress.Zstd; from++ {
		for to := compress.None; to <= compress.Zstd; to++ {
			for _, keepCodec := range []bool{false, true} {
				l := newLog(t)
				l.job.Rules.KeepCodec, l.job.Rules.Codec.Type, l.job.Rules.Codec.Level = keepCodec,
					to, compress.LevelDefault
				l.batch(from, record.Identity{ProducerID: 9, LeaderEpoch: 4, BaseSequence: 2},
					"a=1", "a=2", "b=1")
				l.roll()
				before := l.records()
				l.pass()
				l.want("1:a=2 2:b=1")
				b, want := l.batches()[0], to
				if keepCodec {
					want = from
				}
				if b.Codec() != want || b.ProducerID() != 9 || b.LeaderEpoch() != 4 ||
					b.BaseSequence() != 2 {
					t.Errorf("%s to %s, keep %v: codec %s, %+v", from, to, keepCodec, b.Codec(),
						record.IdentityOf(b))
				}
				if after := l.records(); after[1] != before[1] || after[2] != before[2] {
					t.Errorf("%s to %s: records %v", from, to, after)
				}
			}
		}
	}
}

func TestLevelOfTheTopicIsUsed(t *testing.T) { // KIP-390; Kafka's cleaner ignores the level
	sizes := map[int]int{}
	for _, level := range []int{1, 22} {
		l := newLog(t)
		l.job.Rules.KeepCodec, l.job.Rules.Codec.Type, l.job.Rules.Codec.Level = false,
			compress.Zstd, level
		var records []string
		for i := range 400 {
			records = append(records,
				"key"+string(rune('a'+i%26))+"=the quick brown fox "+string(rune('a'+i%7))+
					" jumps over "+string(rune('a'+i%11)))
		}
		l.put(append(records, "unique=1", "unique=2")...)
		for i := range 300 {
			records[i] = "other" + string(rune(0x4e00+i)) + "=lorem ipsum dolor " +
				string(rune('a'+i%19))
		}
		l.put(append(records[:300], "unique=3", "unique=4")...)
		l.roll()
		l.pass()
		for _, b := range l.batches() {
			sizes[level] += len(b)
		}
	}
	if sizes[22] >= sizes[1] {
		t.Errorf("%d bytes at level 22, %d at level 1", sizes[22], sizes[1])
	}
}

func TestLogAppendTimeSurvivesARebuild(t *testing.T) {
	l := newLog(t)
	l.batch(compress.None, record.Identity{TimestampType: record.LogAppendTime,
		MaxTimestamp: 12345}, "a=1", "a=2", "b")
	l.roll()
	l.pass()
	b := l.batches()[0]
	if b.TimestampType() != record.LogAppendTime || b.MaxTimestamp() != 12345 {
		t.Errorf("type %d, max timestamp %d", b.TimestampType(), b.MaxTimestamp())
	}
}
