package logstore

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
)

// step is a batch that a producer sends, and what is to come of it.
type step struct {
	epoch    int16
	sequence int32
	count    int32 // default 1
	want     error // errDuplicate: known already
}

var errDuplicate = errors.New("duplicate")

// batchAt is a batch of producer 9 at an offset, as it lies in the log.
func (s step) batchAt(t testing.TB, offset int64) record.Batch {
	t.Helper()
	count := max(s.count, 1)
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(record.Identity{BaseOffset: offset, LastOffsetDelta: count - 1, ProducerID: 9,
		ProducerEpoch: s.epoch, BaseSequence: s.sequence})
	for i := range int64(count) {
		b.Add(&record.Record{Offset: offset + i, Timestamp: epoch0.UnixMilli(), Key: []byte("k")})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// updateWith takes a batch of data into the state.
func updateWith(t testing.TB, known *producers, b record.Batch) {
	t.Helper()
	if ended, err := known.update(b, epoch0); ended != nil || err != nil {
		t.Fatalf("data ended %+v, %v", ended, err)
	}
}

func TestProducerRules(t *testing.T) {
	const last = math.MaxInt32
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"KIP-98: sequences follow each other",
			[]step{{0, 0, 3, nil}, {0, 3, 2, nil}, {0, 5, 1, nil}}},
		{"KIP-98: a gap is refused",
			[]step{{0, 0, 1, nil}, {0, 2, 1, ErrOutOfOrderSequence}, {0, 1, 1, nil}}},
		{"KIP-98: an older sequence that is no repeat is refused",
			[]step{{0, 0, 3, nil}, {0, 1, 1, ErrOutOfOrderSequence}}},
		{"KIP-98: an older epoch is fenced",
			[]step{{1, 0, 1, nil}, {0, 1, 1, ErrInvalidProducerEpoch}}},
		{"KIP-98: a new epoch begins at 0",
			[]step{{0, 7, 1, nil}, {1, 8, 1, ErrOutOfOrderSequence}, {1, 0, 1, nil},
				{1, 1, 1, nil}}},
		{"KIP-360: an unknown producer may begin anywhere",
			[]step{{3, 4711, 1, nil}, {3, 4712, 1, nil}}},
		{"KAFKA-5494: any of the last five batches is known again", []step{
			{0, 0, 1, nil}, {0, 1, 1, nil}, {0, 2, 1, nil}, {0, 3, 1, nil}, {0, 4, 1, nil},
			{0, 0, 1, errDuplicate}, {0, 2, 1, errDuplicate}, {0, 4, 1, errDuplicate},
			{0, 5, 1, nil},
		}},
		{"KAFKA-5494: the sixth last is not", []step{
			{0, 0, 1, nil}, {0, 1, 1, nil}, {0, 2, 1, nil}, {0, 3, 1, nil}, {0, 4, 1, nil},
			{0, 5, 1, nil},
			{0, 0, 1, ErrOutOfOrderSequence}, {0, 1, 1, errDuplicate},
		}},
		{"KAFKA-5494: a repeat of another length is no repeat",
			[]step{{0, 0, 3, nil}, {0, 0, 2, ErrOutOfOrderSequence}}},
		{"KAFKA-5793: batches of an older epoch are not known again",
			[]step{{0, 0, 1, nil}, {1, 0, 1, nil}, {0, 0, 1, ErrInvalidProducerEpoch}}},
		{"KIP-98: sequences wrap to 0",
			[]step{{0, last - 1, 2, nil}, {0, 0, 1, nil}, {0, last - 1, 2, errDuplicate}}},
		{"KIP-98: a batch may span the wrap",
			[]step{{0, last - 1, 4, nil}, {0, 2, 1, nil}, {0, last - 1, 4, errDuplicate}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			known := producers{}
			offset := int64(100)
			for i, s := range test.steps {
				b := s.batchAt(t, offset)
				duplicate, err := known.check(b, Verified{})
				if duplicate != nil {
					err = errDuplicate
				}
				if !errors.Is(err, s.want) {
					t.Fatalf("step %d: %v, want %v", i, err, s.want)
				}
				if err == nil {
					updateWith(t, &known, b)
					offset = b.NextOffset()
				}
			}
		})
	}
}

func TestBatchesWithoutProducerAreNotChecked(t *testing.T) {
	known := producers{}
	b := record.Batch(keyed(t, "k"))
	updateWith(t, &known, b)
	if duplicate, err := known.check(b, Verified{}); duplicate != nil || err != nil ||
		known.count() != 0 {
		t.Errorf("%v, %v, %v", duplicate, err, known)
	}
}

func TestADuplicateTellsItsOldOffsets(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{0, 0, 3, nil}.batchAt(t, 40))
	duplicate, err := known.check(step{0, 0, 3, nil}.batchAt(t, 0), Verified{})
	if err != nil || duplicate == nil || duplicate.lastOffset != 42 || duplicate.offsetDelta != 2 {
		t.Errorf("%+v, %v", duplicate, err)
	}
}

func TestProducersExpireAfterADay(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{0, 0, 1, nil}.batchAt(t, 0))
	known.expire(epoch0.Add(producerExpiry - time.Millisecond))
	if known.count() != 1 {
		t.Fatal("expired a millisecond too early")
	}
	known.expire(epoch0.Add(producerExpiry))
	if known.count() != 0 {
		t.Fatal("not expired")
	}
}

// KAFKA-8335, reference I27: what stays for a producer is told by offset, for sequences come twice.
func TestLastOffsetsAreOffsets(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{0, 0, 5, nil}.batchAt(t, 10))
	updateWith(t, &known, step{1, 0, 1, nil}.batchAt(t, 20))
	if got := known.lastOffsets(); !reflect.DeepEqual(got,
		map[int64]clean.Producer{9: {LastOffset: 20, Epoch: 1}}) {
		t.Errorf("%v", got)
	}
}

// A model of the rules that remembers all sequences of the epoch instead of five batches, and
// counts on without wrapping.
func TestProducersFollowTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	const start = math.MaxInt32 - 40 // soon to wrap
	var known producers
	next, offset := int64(start), int64(0)
	var history []step
	for i := range 2000 {
		s := step{sequence: int32((next + random.Int64N(5) - 2) & math.MaxInt32),
			count: 1 + random.Int32N(4)}
		repeat := len(history) > 0 && random.IntN(3) == 0
		if repeat {
			s = history[len(history)-1-random.IntN(min(5, len(history)))]
		}
		b := s.batchAt(t, offset)
		duplicate, err := known.check(b, Verified{})
		fits := len(history) == 0 || int64(s.sequence) == next&math.MaxInt32
		switch {
		case duplicate != nil:
			if !repeat && !recent(history, s) {
				t.Fatalf("step %d: %+v is called a duplicate", i, s)
			}
		case repeat:
			t.Fatalf("step %d: repeat %+v is not known: %v", i, s, err)
		case fits != (err == nil):
			t.Fatalf("step %d: %+v after %d: %v", i, s, next, err)
		case err == nil:
			updateWith(t, &known, b)
			history = append(history, s)
			next = int64(s.sequence) + int64(s.count)
			offset = b.NextOffset()
		}
	}
	if len(history) < 100 {
		t.Errorf("only %d batches were accepted: the test tests little", len(history))
	}
}

func recent(history []step, s step) bool {
	for _, h := range history[max(0, len(history)-producerBatchesMax):] {
		if h == s {
			return true
		}
	}
	return false
}

func TestProducerSnapshotComesBack(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{4, math.MaxInt32 - 1, 5, nil}.batchAt(t, 70))
	content := known.encode(75)
	if len(content) != snapshotHeaderBytes+snapshotEntryBytes+snapshotTrailerBytes {
		t.Errorf("%d bytes", len(content))
	}
	back, err := decodeProducers(content, 75)
	if err != nil {
		t.Fatal(err)
	}
	want := &producer{epoch: 4, lastSeen: epoch0.UnixMilli(), coordinatorEpoch: -1, txnFirst: noTxn,
		batches: []producerBatch{{
			firstSequence: math.MaxInt32 - 1, lastSequence: 2, lastOffset: 74, offsetDelta: 4,
			timestamp: epoch0.UnixMilli(),
		}}}
	if !reflect.DeepEqual(back.get(9), want) {
		t.Errorf("%+v, want %+v", back.get(9), want)
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{}.batchAt(t, 0))
	good := known.encode(9)
	for i := range good {
		bad := append([]byte{}, good...)
		bad[i] ^= 0x10
		if _, err := decodeProducers(bad, 9); !errors.Is(err, errSnapshot) {
			t.Errorf("a flipped bit in byte %d: %v", i, err)
		}
	}
	for _, bad := range [][]byte{nil, good[:9], good[:20], append(good[:len(good):len(good)], 0)} {
		if _, err := decodeProducers(bad, 9); !errors.Is(err, errSnapshot) {
			t.Errorf("%d bytes of %d: %v", len(bad), len(good), err)
		}
	}
}

// A client that has five batches in flight when the broker restarts repeats all of them.
func TestSnapshotKeepsTheBatchesThatMayBeRepeated(t *testing.T) {
	known := producers{}
	for i := range int64(7) {
		updateWith(t, &known, step{4, int32(2 * i), 2, nil}.batchAt(t, 10*i))
	}
	back, err := decodeProducers(known.encode(75), 75)
	if err != nil {
		t.Fatal(err)
	}
	if got := back.get(9); len(got.batches) != producerBatchesMax ||
		!reflect.DeepEqual(got.batches, known.get(9).batches) {
		t.Errorf("%+v, want %+v", got.batches, known.get(9).batches)
	}
}

// A snapshot is as of the offset that its name says, or it is none: it tells of batches that come
// later, or misses some.
func TestASnapshotOfAnotherOffsetIsRefused(t *testing.T) {
	known := producers{}
	updateWith(t, &known, step{}.batchAt(t, 0))
	ours := known.encode(9)
	for _, offset := range []int64{0, 8, 10} {
		if _, err := decodeProducers(ours, offset); !errors.Is(err, errSnapshot) {
			t.Errorf("as of 9, read for %d: %v", offset, err)
		}
	}
	// Kafka's says nothing of itself. That its batches lie below is all that can be asked of it.
	kafkas := ours[:len(ours)-snapshotTrailerBytes]
	binary.BigEndian.PutUint32(kafkas[2:], crc32.Checksum(kafkas[6:], castagnoli))
	for offset, good := range map[int64]bool{0: false, 9: true, 10: true} {
		if _, err := decodeProducers(kafkas, offset); (err == nil) != good {
			t.Errorf("Kafka's, read for %d: %v", offset, err)
		}
	}
}

func FuzzDecodeProducers(f *testing.F) {
	known := producers{}
	f.Add(known.encode(9))
	for i := range int16(3) {
		updateWith(f, &known, step{epoch: i}.batchAt(f, int64(i)))
		f.Add(known.encode(9))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		ps, err := decodeProducers(content, 9)
		if err != nil {
			return
		}
		again, err := decodeProducers(ps.encode(9), 9)
		if err != nil || again.count() != ps.count() {
			t.Errorf("does not come back: %v", err)
		}
	})
}
