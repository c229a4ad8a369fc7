package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// batchOfHex returns a batch of count records with the given payload in hex.
func batchOfHex(t testing.TB, count int32, payload string) Batch {
	t.Helper()
	raw, err := hex.DecodeString(payload)
	if err != nil {
		t.Fatal(err)
	}
	b := append(make(Batch, HeaderBytes), raw...)
	putHeader(b, Identity{LastOffsetDelta: max(count-1, 0)}, 1000, 1000)
	binary.BigEndian.PutUint32(b[countAt:], uint32(count))
	b.setCRC()
	return b
}

func TestRecordsOfKnownBytes(t *testing.T) {
	for name, tt := range map[string]struct{ payload, want string }{
		//                   len attr ts  off key     value   headers
		"key and value": {"10" + "00" + "02" + "00" + "026b" + "0276" + "00", `0@1001 "k"="v"`},
		"null key":      {"0e" + "00" + "02" + "00" + "01" + "0276" + "00", `0@1001 null="v"`},
		"empty key":     {"0e" + "00" + "02" + "00" + "00" + "0276" + "00", `0@1001 ""="v"`},
		"tombstone":     {"0e" + "00" + "01" + "00" + "026b" + "01" + "00", `0@999 "k"=null`},
		"header": {"16" + "00" + "02" + "00" + "026b" + "01" + "02" + "026801" + "",
			`0@1001 "k"=null "h":null`},
		"overlong varint": {"14" + "00" + "8280808000" + "00" + "01" + "01" + "00",
			`0@1001 null=null`},
	} {
		if name == "overlong varint" || name == "header" {
			// The first byte of each payload is a placeholder for the body's length.
			raw, _ := hex.DecodeString(tt.payload[2:])
			tt.payload = hex.EncodeToString(appendVarint(nil, int64(len(raw)))) + tt.payload[2:]
		}
		all := collect(t, batchOfHex(t, 1, tt.payload))
		if len(all) != 1 || text(all[0]) != tt.want {
			t.Errorf("%s: %v, want %s", name, texts(all), tt.want)
		}
	}
}

func TestForbiddenEncodingsAreCorrupt(t *testing.T) {
	for name, tt := range map[string]struct {
		count   int32
		payload string
	}{
		"body longer than the batch": {1, "20" + "00"},
		"negative body length":       {1, "01"},
		"empty body":                 {1, "00"},
		"body not consumed": {1,
			"0e" + "00" + "00" + "00" + "01" + "01" + "00" + "ff"},
		"body too short":           {1, "06" + "00" + "00" + "00"},
		"key longer than the body": {1, "0c" + "00" + "00" + "00" + "10" + "01" + "00"},
		"key length -2":            {1, "0c" + "00" + "00" + "00" + "03" + "01" + "00"},
		"value length -2":          {1, "0c" + "00" + "00" + "00" + "01" + "03" + "00"},
		"negative header count":    {1, "0c" + "00" + "00" + "00" + "01" + "01" + "01"},
		"more headers than bytes":  {1, "0c" + "00" + "00" + "00" + "01" + "01" + "7e"},
		"null header key": {1,
			"10" + "00" + "00" + "00" + "01" + "01" + "02" + "01" + "01"},
		"header value beyond the body": {1,
			"10" + "00" + "00" + "00" + "01" + "01" + "02" + "00" + "02"},
		"unterminated varint": {1, "ffffffffff" + "ffffffffffff"},
		"timestamp varint of 11 bytes": {1,
			"20" + "00" + "8080808080808080808000" + "00" + "01" + "01" + "00"},
		"a byte after the last record": {1,
			"0c" + "00" + "00" + "00" + "01" + "01" + "00" + "00"},
		"fewer records than counted":   {2, "0c" + "00" + "00" + "00" + "01" + "01" + "00"},
		"records with a count of 0":    {0, "0c" + "00" + "00" + "00" + "01" + "01" + "00"},
		"negative count":               {-1, "0c" + "00" + "00" + "00" + "01" + "01" + "00"},
		"offset delta beyond the last": {1, "0c" + "00" + "00" + "02" + "01" + "01" + "00"},
		"negative offset delta":        {1, "0c" + "00" + "00" + "01" + "01" + "01" + "00"},
		"duplicate offset delta": {2,
			"0c" + "000000" + "010100" + "0c" + "000000" + "010100"},
		"count beyond the payload": {math.MaxInt32,
			"0c" + "00" + "00" + "00" + "01" + "01" + "00"},
	} {
		err := batchOfHex(t, tt.count, tt.payload).Records(1<<20,
			func(*Record) error { return nil })
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestVarintsDecodeLikeKafka(t *testing.T) {
	for _, value := range []int64{0, 1, -1, 63, -64, 64, math.MaxInt32, math.MinInt32} {
		buf := appendVarint(nil, value)
		if got, size := varint32(buf); int64(got) != value || size != len(buf) ||
			size != varintSize(value) {
			t.Errorf("int32 %d decodes as %d in %d bytes", value, got, size)
		}
	}
	for _, value := range []int64{0, -1, math.MaxInt64, math.MinInt64, 1 << 40, -1 << 40} {
		buf := appendVarint(nil, value)
		if got, size := varint64(buf); got != value || size != len(buf) ||
			size != varintSize(value) {
			t.Errorf("int64 %d decodes as %d in %d bytes", value, got, size)
		}
	}
	if got, size := varint32([]byte{0x82, 0x80, 0x80, 0x80, 0x00}); got != 1 || size != 5 {
		t.Errorf("overlong 1 decodes as %d in %d bytes", got, size)
	}
	for _, bad := range [][]byte{{}, {0x80}, {0x80, 0x80, 0x80, 0x80, 0x80, 0x00}} {
		if _, size := varint32(bad); size != 0 {
			t.Errorf("% x decodes in %d bytes, want an error", bad, size)
		}
	}
}

func TestLogAppendTimeIsEachRecordsTimestamp(t *testing.T) { // timestamp deltas are ignored
	id := Identity{LastOffsetDelta: 1, TimestampType: LogAppendTime, MaxTimestamp: 777}
	b := buildBatch(t, compress.None, id, keyed("a", "1", 10), keyed("b", "2", 20))
	for _, r := range collect(t, b) {
		if r.Timestamp != 777 {
			t.Errorf("timestamp %d, want 777", r.Timestamp)
		}
	}
}

func TestDecompressionStopsAtTheLimit(t *testing.T) { // protects against decompression bombs
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		b := clientBatch(t, codec, Record{Value: make([]byte, 1<<20)})
		err := b.Records(1<<20, func(*Record) error { return nil })
		if !errors.Is(err, compress.ErrTooLarge) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrTooLarge and not ErrCorrupt: the batch is legal", codec, err)
		}
	}
}

func TestRecordsReturnsTheErrorOfVisit(t *testing.T) {
	stop, seen := errors.New("stop"), 0
	b := clientBatch(t, compress.None, keyed("a", "1", 1), keyed("b", "2", 2))
	err := b.Records(1<<20, func(*Record) error { seen++; return stop })
	if !errors.Is(err, stop) || seen != 1 {
		t.Errorf("%v after %d records, want the error of visit after 1", err, seen)
	}
}

func FuzzRecords(f *testing.F) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		f.Add([]byte(clientBatch(f, codec, keyed("a", "1", 10),
			Record{Headers: []Header{{Key: []byte("h")}}})))
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		b, _, err := Next(buf)
		if err != nil {
			return
		}
		var all []Record
		if err := b.Records(1<<20, func(r *Record) error {
			all = append(all, clone(*r))
			return nil
		}); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, compress.ErrTooLarge) {
				t.Fatalf("unexpected kind of error: %v", err)
			}
			return
		}
		// Check that a batch that can be read can be rebuilt with the same records.
		builder := NewBuilder(compress.Snappy, compress.LevelDefault)
		builder.Reset(IdentityOf(b))
		for i := range all {
			builder.Add(&all[i])
		}
		built, err := builder.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again := collect(t, built); !slices.Equal(texts(all), texts(again)) {
			t.Fatalf("the rebuilt batch has records %v, want %v", texts(again), texts(all))
		}
		if !bytes.Equal(built[:8], b[:8]) {
			t.Fatal("the base offset changed")
		}
	})
}
