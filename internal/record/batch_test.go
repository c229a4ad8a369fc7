package record

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

func TestNextReturnsTheFirstBatchAndTheRest(t *testing.T) {
	first := clientBatch(t, compress.None, keyed("a", "1", 10))
	second := clientBatch(t, compress.Zstd, keyed("b", "2", 20), keyed("c", "3", 30))
	b, rest, err := Next(append(append([]byte{}, first...), second...))
	if err != nil || string(b) != string(first) || string(rest) != string(second) {
		t.Fatalf("%v, %d bytes, %d left", err, len(b), len(rest))
	}
	if cap(b) != len(b) {
		t.Error("an append to the first batch would overwrite the second")
	}
	for size := range first {
		if _, _, err := Next(first[:size]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("truncated to %d bytes: %v, want ErrUnexpectedEOF", size, err)
		}
	}
}

func TestNextRejectsInvalidHeaders(t *testing.T) {
	for name, corrupt := range map[string]func(Batch){
		"magic 1":   func(b Batch) { b[magicAt] = 1 },
		"magic -1":  func(b Batch) { b[magicAt] = 0xff },
		"length 48": func(b Batch) { binary.BigEndian.PutUint32(b[lengthAt:], 48) },
		"negative length": func(b Batch) {
			binary.BigEndian.PutUint32(b[lengthAt:],
				math.MaxUint32)
		},
	} {
		b := clientBatch(t, compress.None, keyed("a", "1", 10))
		corrupt(b)
		if _, _, err := Next(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestHeaderFieldsAreAtTheirOffsets(t *testing.T) {
	b := make(Batch, HeaderBytes)
	for i := range b {
		b[i] = byte(i + 1)
	}
	for name, pair := range map[string][2]int64{
		"base offset":       {b.BaseOffset(), 0x0102030405060708},
		"leader epoch":      {int64(b.LeaderEpoch()), 0x0d0e0f10},
		"crc":               {int64(b.CRC()), 0x12131415},
		"last offset delta": {int64(b.LastOffsetDelta()), 0x18191a1b},
		"base timestamp":    {b.BaseTimestamp(), 0x1c1d1e1f20212223},
		"max timestamp":     {b.MaxTimestamp(), 0x2425262728292a2b},
		"producer id":       {b.ProducerID(), 0x2c2d2e2f30313233},
		"producer epoch":    {int64(b.ProducerEpoch()), 0x3435},
		"base sequence":     {int64(b.BaseSequence()), 0x36373839},
		"count":             {int64(b.Count()), 0x3a3b3c3d},
		"codec":             {int64(b.Codec()), 0x17 & 7},
		"last offset":       {b.LastOffset(), 0x0102030405060708 + 0x18191a1b},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %#x, want %#x", name, pair[0], pair[1])
		}
	}
}

func TestAttributeBits(t *testing.T) {
	for bit, is := range map[int16]func(Batch) bool{
		1 << 3: func(b Batch) bool { return b.TimestampType() == LogAppendTime },
		1 << 4: Batch.Transactional,
		1 << 5: Batch.Control,
		1 << 6: func(b Batch) bool { _, ok := b.DeleteHorizon(); return ok },
	} {
		b := make(Batch, HeaderBytes)
		if is(b) {
			t.Errorf("bit %#x is reported in a zero header", bit)
		}
		b.setAttributes(bit)
		if !is(b) || b.Codec() != compress.None {
			t.Errorf("bit %#x is not reported", bit)
		}
	}
}

func TestLastSequenceWraps(t *testing.T) { // checks the step from 2^31-1 to 0
	b := make(Batch, HeaderBytes)
	for _, tt := range []struct{ base, delta, last int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0},
		{math.MaxInt32 - 1, 4, 2}, {-1, 4, -1},
	} {
		binary.BigEndian.PutUint32(b[baseSequenceAt:], uint32(tt.base))
		binary.BigEndian.PutUint32(b[lastOffsetDeltaAt:], uint32(tt.delta))
		if got := b.LastSequence(); got != tt.last {
			t.Errorf("base %d delta %d: last sequence %d, want %d", tt.base, tt.delta, got, tt.last)
		}
	}
}

func TestChecksumExcludesOffsetEpochAndLength(t *testing.T) {
	whole := clientBatch(t, compress.None, keyed("a", "1", 10))
	if err := whole.CheckCRC(); err != nil {
		t.Fatal(err)
	}
	whole.SetBaseOffset(1 << 40)
	whole.SetLeaderEpoch(7)
	if err := whole.CheckCRC(); err != nil || whole.BaseOffset() != 1<<40 ||
		whole.LeaderEpoch() != 7 {
		t.Errorf("offset %d, epoch %d, %v", whole.BaseOffset(), whole.LeaderEpoch(), err)
	}
	for index := crcAt; index < len(whole); index++ {
		whole[index] ^= 1
		if err := whole.CheckCRC(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("flipped bit in byte %d: %v, want ErrCorrupt", index, err)
		}
		whole[index] ^= 1
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(clientBatch(f, compress.None, keyed("a", "1", 10))))
	f.Add([]byte(clientBatch(f, compress.LZ4, keyed("a", "1", 10), keyed("b", "2", 9))))
	f.Add(make([]byte, 61))
	f.Fuzz(func(t *testing.T, buf []byte) {
		b, rest, err := Next(buf)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		if len(b) < HeaderBytes || len(b)+len(rest) != len(buf) {
			t.Fatalf("batch of %d bytes and rest of %d, want %d in total", len(b), len(rest),
				len(buf))
		}
		_, _, _ = b.LastSequence(), b.NextOffset(), b.CheckCRC()
	})
}
