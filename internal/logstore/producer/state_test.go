package producer

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
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
)

var epoch0 = time.UnixMilli(1_700_000_000_000)

// step is a batch that a producer sends, and the expected result.
type step struct {
	epoch    int16
	sequence int32
	count    int32 // default 1
	want     error // nil, errDuplicate, or the error of Check
}

var errDuplicate = errors.New("duplicate")

// batchAt returns the step as a batch of producer 9 at an offset.
func (s step) batchAt(t testing.TB, offset int64) record.Batch {
	t.Helper()
	return dataBatch(t, record.Identity{BaseOffset: offset, LastOffsetDelta: max(s.count, 1) - 1,
		ProducerID: 9, ProducerEpoch: s.epoch, BaseSequence: s.sequence})
}

// dataBatch returns a batch with a record at each of its offsets.
func dataBatch(t testing.TB, id record.Identity) record.Batch {
	t.Helper()
	b := record.NewBuilder(compress.None, compress.LevelDefault)
	b.Reset(id)
	for i := range int64(id.LastOffsetDelta) + 1 {
		b.Add(&record.Record{Offset: id.BaseOffset + i, Timestamp: epoch0.UnixMilli(),
			Key: []byte("k")})
	}
	batch, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// updateWith applies a data batch to the state, which must not end a transaction.
func updateWith(t testing.TB, known *State, b record.Batch) {
	t.Helper()
	if ended, err := known.Update(b, epoch0); ended != nil || err != nil {
		t.Fatalf("update with a data batch: got ended transaction %+v and error %v, want neither",
			ended, err)
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
		{"KIP-98: a gap is rejected",
			[]step{{0, 0, 1, nil}, {0, 2, 1, ErrOutOfOrderSequence}, {0, 1, 1, nil}}},
		{"KIP-98: an older sequence that is no duplicate is rejected",
			[]step{{0, 0, 3, nil}, {0, 1, 1, ErrOutOfOrderSequence}}},
		{"KIP-98: an older epoch is fenced",
			[]step{{1, 0, 1, nil}, {0, 1, 1, ErrInvalidEpoch}}},
		{"KIP-98: a new epoch begins with sequence number 0",
			[]step{{0, 7, 1, nil}, {1, 8, 1, ErrOutOfOrderSequence}, {1, 0, 1, nil},
				{1, 1, 1, nil}}},
		{"KIP-360: an unknown producer may begin with any sequence number",
			[]step{{3, 4711, 1, nil}, {3, 4712, 1, nil}}},
		{"KAFKA-5494: any of the last five batches is recognized", []step{
			{0, 0, 1, nil}, {0, 1, 1, nil}, {0, 2, 1, nil}, {0, 3, 1, nil}, {0, 4, 1, nil},
			{0, 0, 1, errDuplicate}, {0, 2, 1, errDuplicate}, {0, 4, 1, errDuplicate},
			{0, 5, 1, nil},
		}},
		{"KAFKA-5494: the batch before the last five is not recognized", []step{
			{0, 0, 1, nil}, {0, 1, 1, nil}, {0, 2, 1, nil}, {0, 3, 1, nil}, {0, 4, 1, nil},
			{0, 5, 1, nil},
			{0, 0, 1, ErrOutOfOrderSequence}, {0, 1, 1, errDuplicate},
		}},
		{"KAFKA-5494: a batch of another length is no duplicate",
			[]step{{0, 0, 3, nil}, {0, 0, 2, ErrOutOfOrderSequence}}},
		{"KAFKA-5793: batches of an older epoch are not recognized",
			[]step{{0, 0, 1, nil}, {1, 0, 1, nil}, {0, 0, 1, ErrInvalidEpoch}}},
		{"KIP-98: sequences wrap to 0",
			[]step{{0, last - 1, 2, nil}, {0, 0, 1, nil}, {0, last - 1, 2, errDuplicate}}},
		{"KIP-98: the sequence numbers of one batch may wrap to 0",
			[]step{{0, last - 1, 4, nil}, {0, 2, 1, nil}, {0, last - 1, 4, errDuplicate}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			known := State{}
			offset := int64(100)
			for i, s := range test.steps {
				b := s.batchAt(t, offset)
				duplicate, err := known.Check(b, Verified{})
				if duplicate != nil {
					err = errDuplicate
				}
				if !errors.Is(err, s.want) {
					t.Fatalf("step %d: got error %v, want %v", i, err, s.want)
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
	known := State{}
	b := dataBatch(t, record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1})
	updateWith(t, &known, b)
	if duplicate, err := known.Check(b, Verified{}); duplicate != nil || err != nil ||
		known.Len() != 0 {
		t.Errorf("got duplicate %v, error %v and state %v, want none of them", duplicate, err, known)
	}
}

func TestDuplicateReturnsItsOffsets(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{0, 0, 3, nil}.batchAt(t, 40))
	duplicate, err := known.Check(step{0, 0, 3, nil}.batchAt(t, 0), Verified{})
	if err != nil || duplicate == nil || duplicate.LastOffset != 42 || duplicate.offsetDelta != 2 {
		t.Errorf("got duplicate %+v and error %v, want the offsets 40 to 42", duplicate, err)
	}
}

func TestProducersExpireAfterADay(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{0, 0, 1, nil}.batchAt(t, 0))
	known.Expire(epoch0.Add(Expiry - time.Millisecond))
	if known.Len() != 1 {
		t.Fatal("the producer expired a millisecond too early")
	}
	known.Expire(epoch0.Add(Expiry))
	if known.Len() != 0 {
		t.Fatal("the producer has not expired")
	}
}

// TestLastBatches checks that LastBatches returns the second batch of a producer that writes one
// batch in each of two epochs. The batch is identified by its offset, because sequence numbers
// repeat (KAFKA-8335).
func TestLastBatches(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{0, 0, 5, nil}.batchAt(t, 10))
	updateWith(t, &known, step{1, 0, 1, nil}.batchAt(t, 20))
	if got := known.LastBatches(); !reflect.DeepEqual(got,
		map[int64]Last{9: {LastOffset: 20, Epoch: 1, ExpiresAt: epoch0.Add(Expiry)}}) {
		t.Errorf("got %v, want offset 20 and epoch 1 for producer 9", got)
	}
}

// TestProducersFollowTheModel compares the state with a model. Unlike the state, the model
// remembers all batches of the epoch instead of five, and its sequence numbers do not wrap.
func TestProducersFollowTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	const start = math.MaxInt32 - 40 // makes the sequence numbers wrap after a few batches
	var known State
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
		duplicate, err := known.Check(b, Verified{})
		fits := len(history) == 0 || int64(s.sequence) == next&math.MaxInt32
		switch {
		case duplicate != nil:
			if !repeat && !recent(history, s) {
				t.Fatalf("step %d: %+v is treated as a duplicate", i, s)
			}
		case repeat:
			t.Fatalf("step %d: duplicate %+v is not recognized: %v", i, s, err)
		case fits != (err == nil):
			t.Fatalf("step %d: batch %+v, next sequence number %d: got error %v, want error: %t", i, s,
				next, err, !fits)
		case err == nil:
			updateWith(t, &known, b)
			history = append(history, s)
			next = int64(s.sequence) + int64(s.count)
			offset = b.NextOffset()
		}
	}
	if len(history) < 100 {
		t.Errorf("only %d batches were accepted, want at least 100", len(history))
	}
}

func recent(history []step, s step) bool {
	for _, h := range history[max(0, len(history)-batchesMax):] {
		if h == s {
			return true
		}
	}
	return false
}

func TestSnapshotRoundTrip(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{4, math.MaxInt32 - 1, 5, nil}.batchAt(t, 70))
	content := known.Encode(75)
	if len(content) != snapshotHeaderBytes+snapshotEntryBytes+snapshotTrailerBytes {
		t.Errorf("got a snapshot of %d bytes, want one entry and the trailer", len(content))
	}
	back, err := Decode(content, 75)
	if err != nil {
		t.Fatal(err)
	}
	want := &entry{epoch: 4, lastSeen: epoch0.UnixMilli(), coordinatorEpoch: -1,
		txnFirst: NoTransaction,
		batches: []Batch{{
			firstSequence: math.MaxInt32 - 1, lastSequence: 2, LastOffset: 74, offsetDelta: 4,
			Timestamp: epoch0.UnixMilli(),
		}}}
	if !reflect.DeepEqual(back.byID[9], want) {
		t.Errorf("got %+v, want %+v", back.byID[9], want)
	}
}

func TestDamagedSnapshotsAreRejected(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{}.batchAt(t, 0))
	good := known.Encode(9)
	for i := range good {
		bad := append([]byte{}, good...)
		bad[i] ^= 0x10
		if _, err := Decode(bad, 9); !errors.Is(err, ErrSnapshot) {
			t.Errorf("a flipped bit in byte %d: got error %v, want ErrSnapshot", i, err)
		}
	}
	for _, bad := range [][]byte{nil, good[:9], good[:20], append(good[:len(good):len(good)], 0)} {
		if _, err := Decode(bad, 9); !errors.Is(err, ErrSnapshot) {
			t.Errorf("%d bytes of %d: got error %v, want ErrSnapshot", len(bad), len(good), err)
		}
	}
}

// TestSnapshotKeepsTheBatchesThatMayBeRepeated checks that a decoded snapshot contains the last
// five batches, because a client that has five batches in flight when the broker restarts repeats
// all of them.
func TestSnapshotKeepsTheBatchesThatMayBeRepeated(t *testing.T) {
	known := State{}
	for i := range int64(7) {
		updateWith(t, &known, step{4, int32(2 * i), 2, nil}.batchAt(t, 10*i))
	}
	back, err := Decode(known.Encode(75), 75)
	if err != nil {
		t.Fatal(err)
	}
	if got := back.byID[9]; len(got.batches) != batchesMax ||
		!reflect.DeepEqual(got.batches, known.byID[9].batches) {
		t.Errorf("got batches %+v, want %+v", got.batches, known.byID[9].batches)
	}
}

// TestSnapshotOfAnotherOffsetIsRejected checks that a snapshot is only valid for the offset in its
// file name. The snapshot of another offset would contain later batches, or lack some batches.
func TestSnapshotOfAnotherOffsetIsRejected(t *testing.T) {
	known := State{}
	updateWith(t, &known, step{}.batchAt(t, 0))
	ours := known.Encode(9)
	for _, offset := range []int64{0, 8, 10} {
		if _, err := Decode(ours, offset); !errors.Is(err, ErrSnapshot) {
			t.Errorf("snapshot as of 9, decoded for %d: got error %v, want ErrSnapshot", offset, err)
		}
	}
	// Kafka's snapshot contains no offset. Decode can only check that the snapshot's batches are
	// below the given offset.
	kafkas := ours[:len(ours)-snapshotTrailerBytes]
	binary.BigEndian.PutUint32(kafkas[2:], crc32.Checksum(kafkas[6:], castagnoli))
	for offset, good := range map[int64]bool{0: false, 9: true, 10: true} {
		if _, err := Decode(kafkas, offset); (err == nil) != good {
			t.Errorf("snapshot of Kafka, decoded for %d: got error %v, want error: %t", offset, err,
				!good)
		}
	}
}

func FuzzDecode(f *testing.F) {
	known := State{}
	f.Add(known.Encode(9))
	for i := range int16(3) {
		updateWith(f, &known, step{epoch: i}.batchAt(f, int64(i)))
		f.Add(known.Encode(9))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		ps, err := Decode(content, 9)
		if err != nil {
			return
		}
		again, err := Decode(ps.Encode(9), 9)
		if err != nil || again.Len() != ps.Len() {
			t.Errorf("decode the encoded state again: %d producers, error %v, want %d producers",
				again.Len(), err, ps.Len())
		}
	})
}

func TestSnapshotsKeepOpenTransactions(t *testing.T) {
	var known State
	for id := range int64(5) {
		known.put(id+1, &entry{coordinatorEpoch: int32(id), txnFirst: 90 - id,
			lastSeen: epoch0.UnixMilli()})
	}
	back, err := Decode(known.Encode(1<<20), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for id := range int64(5) {
		if p := back.byID[id+1]; p.txnFirst != 90-id || int64(p.coordinatorEpoch) != id {
			t.Errorf("producer %d: got %+v, want transaction at %d and coordinator epoch %d", id+1, p,
				90-id, id)
		}
	}
	if first := back.Undecided(); first != 86 || len(back.open) != 5 {
		t.Errorf("got open transactions %v, want 5, the first at 86", back.open)
	}
}
