package record

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// This file checks the rules of docs/internals/format/batch.md for the bytes of a batch.
// records_test.go contains more valid and invalid records.

// overlong encodes value as a zigzag varint of exactly n bytes, even if fewer bytes would suffice.
func overlong(value int64, n int) []byte {
	raw := uint64(value<<1) ^ uint64(value>>63)
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(raw>>(7*i))&0x7f | 0x80
	}
	out[n-1] &= 0x7f
	return out
}

// varintFields lists the varints of the record that varintRecord returns, in order, with their
// maximum sizes.
var varintFields = []struct {
	name     string
	value    int64
	bytesMax int
}{
	{"timestampDelta", -3, 10}, {"offsetDelta", 0, 5}, {"keyLen", 1, 5}, {"valueLen", 1, 5},
	{"headerCount", 1, 5}, {"header keyLen", 1, 5}, {"header valLen", -1, 5},
}

// varintRecord returns one record in hex. The varint with index field in varintFields has n bytes,
// and all other varints have their minimal size. Field -1 selects bodyLength; field -2 selects no
// varint.
func varintRecord(field, n int) string {
	body := []byte{0}
	for i, f := range varintFields {
		if i == field {
			body = append(body, overlong(f.value, n)...)
		} else {
			body = appendVarint(body, f.value)
		}
		switch f.name {
		case "keyLen", "valueLen", "header keyLen":
			body = append(body, "kvxxxh"[min(i-2, 5)])
		}
	}
	length := appendVarint(nil, int64(len(body)))
	if field == -1 {
		length = overlong(int64(len(body)), n)
	}
	return hex.EncodeToString(append(length, body...))
}

// TestOverlongButTerminatedVarintsDecode enlarges one varint at a time, up to the maximum of 5
// bytes (int32) or 10 bytes (int64) and beyond it.
func TestOverlongButTerminatedVarintsDecode(t *testing.T) {
	want := texts(collect(t, batchOfHex(t, 1, varintRecord(-2, 0))))
	for field := -1; field < len(varintFields); field++ {
		name, bytesMax := "bodyLength", 5
		if field >= 0 {
			name, bytesMax = varintFields[field].name, varintFields[field].bytesMax
		}
		for n := 1; n <= bytesMax; n++ {
			if got := texts(collect(t,
				batchOfHex(t, 1, varintRecord(field, n)))); !slices.Equal(got,
				want) {
				t.Errorf("%s in %d bytes: %v, want %v", name, n, got, want)
			}
		}
		if err := batchOfHex(t, 1, varintRecord(field, bytesMax+1)).Records(1<<20,
			func(*Record) error { return nil }); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s in %d bytes: %v, want ErrCorrupt", name, bytesMax+1, err)
		}
	}
}

func TestBodyLengthMustBeConsumedExactly(t *testing.T) {
	raw, _ := hex.DecodeString(varintRecord(-2, 0))
	for _, by := range []int{-1, 1} {
		wrong := slices.Clone(raw)
		wrong[0] += byte(2 * by) // zigzag encoding doubles the difference by
		wrong = append(wrong, make([]byte, max(0, by))...)
		if err := batchOfHex(t, 1, hex.EncodeToString(wrong)).Records(1<<20,
			func(*Record) error { return nil }); !errors.Is(err, ErrCorrupt) {
			t.Errorf("body length off by %d: %v, want ErrCorrupt", by, err)
		}
	}
}

// TestHeaderCountIsBoundedByTheRemainingBytes checks that a header count is refused if it is
// negative, or larger than the number of headers that the remaining bytes can contain.
func TestHeaderCountIsBoundedByTheRemainingBytes(t *testing.T) {
	for count, valid := range map[int64]bool{
		// The body contains two headers, each with an empty key and a null value, so together four bytes.
		0: false, 1: false, 2: true, 3: false,
		-1: false, math.MinInt32: false, 4: false, 5: false, math.MaxInt32: false,
	} {
		body := append([]byte{0, 0, 0, 1, 1}, appendVarint(nil, count)...)
		body = append(body, 0, 1, 0, 1)
		payload := hex.EncodeToString(append(appendVarint(nil, int64(len(body))), body...))
		err := batchOfHex(t, 1, payload).Records(1<<20, func(*Record) error { return nil })
		if valid != (err == nil) || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d headers in four bytes: %v", count, err)
		}
	}
}

func TestBytesAfterTheLastRecordAreCorrupt(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		raw, _ := hex.DecodeString(varintRecord(-2, 0))
		for trailing, valid := range map[int]bool{0: true, 1: false, len(raw): false} {
			packed, err := compress.Compress(nil, append(slices.Clone(raw), raw[:trailing]...),
				codec,
				compress.LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			b := batchOfHex(t, 1, hex.EncodeToString(packed))
			b.setAttributes(int16(codec))
			if err := b.Records(1<<20, func(*Record) error { return nil }); valid != (err == nil) {
				t.Errorf("%s: %d trailing bytes: %v", codec, trailing, err)
			}
		}
	}
}

func TestEmptyKeyIsNotANullKey(t *testing.T) {
	for name, c := range map[string]struct {
		record            Record
		hasKey, tombstone bool
	}{
		"null key":                  {Record{Value: []byte("v")}, false, false},
		"null key, null value":      {Record{}, false, false},
		"empty key":                 {Record{Key: []byte{}, Value: []byte("v")}, true, false},
		"empty key, null value":     {Record{Key: []byte{}}, true, true},
		"empty key and empty value": {Record{Key: []byte{}, Value: []byte{}}, true, false},
	} {
		for codec := compress.None; codec <= compress.Zstd; codec++ {
			b := clientBatch(t, codec, c.record)
			r := collect(t, b)[0]
			if (r.Key != nil) != c.hasKey || r.Tombstone() != c.tombstone {
				t.Errorf("%s in %s: key %v, tombstone %v", name, codec, r.Key, r.Tombstone())
			}
			valid, err := Validate(b, Rules{Compacted: true, KeepCodec: true}, now)
			if (err == nil) != c.hasKey {
				t.Errorf("%s in %s, compacted: %v", name, codec, err)
			}
			valid.Release()
		}
	}
}

func TestChecksumCoversEverythingFromTheAttributes(t *testing.T) {
	valid := clientBatch(t, compress.None, keyed("a", "1", 10))
	for index := range valid {
		changed := slices.Clone(valid)
		changed[index] ^= 0x40
		// A change of the stored checksum must also be detected.
		covered := index >= attributesAt || index >= crcAt && index < crcAt+4
		if err := changed.CheckCRC(); covered != (err != nil) {
			t.Errorf("byte %d: %v", index, err)
		}
	}
}

func TestTimestampDeltasMayBeNegativeAndAreIgnoredForLogAppendTime(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := clientBatch(t, codec, keyed("a", "1", 1000), keyed("b", "2", 400), keyed("c", "3", -1))
		var got []int64
		for _, r := range collect(t, b) {
			got = append(got, r.Timestamp)
		}
		if !slices.Equal(got, []int64{1000, 400, -1}) {
			t.Errorf("%s: CreateTime %v", codec, got)
		}
		b.setAttributes(int16(codec) | logAppendTimeBit)
		b.setMaxTimestamp(77)
		for _, r := range collect(t, b) {
			if r.Timestamp != 77 {
				t.Errorf("%s: LogAppendTime %d", codec, r.Timestamp)
			}
		}
	}
}

func TestCodecsFiveToSevenAreInvalid(t *testing.T) {
	for codec := compress.Codec(0); codec < 8; codec++ {
		b := clientBatch(t, compress.None, keyed("a", "1", 10))
		b.setAttributes(int16(codec))
		err := b.Records(1<<20, func(*Record) error { return nil })
		if codec.Valid() != (codec <= 4) || codec > 4 && !errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d: valid %v, %v", codec, codec.Valid(), err)
		}
	}
}

// TestUnusedAttributeBitsAreIgnoredAndKept sets the attribute bits 7 to 15, which a later version
// of the format may use.
func TestUnusedAttributeBitsAreIgnoredAndKept(t *testing.T) {
	b := clientBatch(t, compress.Gzip, keyed("a", "1", 10))
	want := texts(collect(t, b))
	b.setAttributes(b.attributes() | -1<<7)
	if b.Codec() != compress.Gzip || b.Control() || b.Transactional() ||
		!slices.Equal(texts(collect(t, b)), want) {
		t.Errorf("%+v", IdentityOf(b))
	}
	if binary.BigEndian.Uint16(b[attributesAt:])>>7 != 1<<9-1 {
		t.Error("the unused attribute bits were cleared")
	}
}
