package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

var now = time.UnixMilli(1_000_000_000)

// modified returns a valid batch that modify has changed, with a correct checksum.
func modified(t testing.TB, modify func(Batch)) Batch {
	b := clientBatch(t, compress.None, keyed("a", "1", 10), keyed("b", "2", 20))
	modify(b)
	b.setCRC()
	return b
}

func put32(index int, value int32) func(Batch) {
	return func(b Batch) { binary.BigEndian.PutUint32(b[index:], uint32(value)) }
}

func TestValidateRejects(t *testing.T) {
	good := clientBatch(t, compress.None, keyed("a", "1", 10))
	wrongCRC := modified(t, func(Batch) {})
	wrongCRC[crcAt]++
	for name, tt := range map[string]struct {
		buf   []byte
		rules Rules
		want  error
	}{
		"empty buffer":     {nil, Rules{}, ErrInvalidRecord},
		"incomplete batch": {good[:len(good)-1], Rules{}, ErrInvalidRecord},
		"two batches": {append(bytes.Clone(good), good...), Rules{},
			ErrInvalidRecord},
		"magic 1": {modified(t, func(b Batch) { b[magicAt] = 1 }), Rules{},
			ErrInvalidRecord},
		"shorter than a header": {modified(t, put32(lengthAt, 48)), Rules{}, ErrCorrupt},
		"base offset 5": {modified(t, func(b Batch) { b.SetBaseOffset(5) }), Rules{},
			ErrInvalidRecord},
		"larger than allowed": {good, Rules{BytesMax: len(good) - 1},
			ErrMessageTooLarge},
		"wrong checksum": {wrongCRC, Rules{}, ErrCorrupt},
		"no records":     {modified(t, put32(countAt, 0)), Rules{}, ErrInvalidRecord},
		"count and last delta differ": {modified(t, put32(lastOffsetDeltaAt, 5)), Rules{},
			ErrInvalidRecord},
		"control": {modified(t, func(b Batch) { b.setAttributes(controlBit) }),
			Rules{}, ErrInvalidRecord},
		"delete horizon": {modified(t,
			func(b Batch) { b.setAttributes(deleteHorizonBit) }), Rules{}, ErrInvalidRecord},
		"producer id without sequence": {modified(t,
			func(b Batch) { binary.BigEndian.PutUint64(b[producerIDAt:], 7) }), Rules{},
			ErrInvalidRecord},
		"codec 5": {modified(t, func(b Batch) { b.setAttributes(5) }), Rules{},
			ErrUnsupportedCodec},
		"unparsable records": {modified(t, func(b Batch) { b[HeaderBytes] = 0xff }),
			Rules{}, ErrInvalidRecord},
		"invalid gzip data": {modified(t, func(b Batch) { b.setAttributes(1) }), Rules{},
			ErrInvalidRecord},
		"null key in a compacted topic": {clientBatch(t, compress.None,
			Record{Value: []byte("v")}), Rules{Compacted: true}, ErrInvalidRecord},
		"log append time from a client": {modified(t,
			func(b Batch) { b.setAttributes(logAppendTimeBit) }), Rules{}, ErrInvalidTimestamp},
		"decompressed size beyond the limit": {clientBatch(t, compress.Zstd,
			Record{Value: make([]byte, 9999)}), Rules{DecompressedMax: 9999}, ErrInvalidRecord},
		"exceeds the limit when stored uncompressed": {clientBatch(t, compress.Zstd,
			Record{Value: make([]byte, 9999)}), Rules{BytesMax: 5000}, ErrMessageTooLarge},
	} {
		_, err := Validate(bytes.Clone(tt.buf), tt.rules, now)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		for _, other := range []error{ErrInvalidRecord, ErrCorrupt, ErrMessageTooLarge,
			ErrUnsupportedCodec, ErrInvalidTimestamp} {
			if !errors.Is(tt.want, other) && errors.Is(err, other) {
				t.Errorf("%s: %v also wraps %v", name, err, other)
			}
		}
	}
}

func TestTimestampsOutsideTheWindowAreRejectedAndMinusOneIsExempt(t *testing.T) {
	rules := Rules{TimestampBeforeMax: time.Minute, TimestampAfterMax: time.Hour}
	ms := now.UnixMilli()
	for _, tt := range []struct {
		timestamp int64
		rules     Rules
		ok        bool
	}{
		{ms, rules, true}, {-1, rules, true},
		{ms - 60_000, rules, true}, {ms - 60_001, rules, false},
		{ms + 3_600_000, rules, true}, {ms + 3_600_001, rules, false},
		{0, Rules{}, true}, {ms * 2, Rules{}, true},
		{0, Rules{TimestampType: LogAppendTime, TimestampBeforeMax: 1}, true},
	} {
		_, err := Validate(clientBatch(t, compress.None, keyed("a", "1", tt.timestamp)), tt.rules,
			now)
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, ErrInvalidTimestamp) {
			t.Errorf("timestamp %d with %+v: %v", tt.timestamp, tt.rules, err)
		}
	}
}

func TestBatchErrorListsTheRecordsAndPrefersInvalidTimestamp(t *testing.T) {
	b := clientBatch(t, compress.LZ4, keyed("a", "1", 5), Record{Timestamp: 5},
		keyed("c", "1", now.UnixMilli()*2))
	_, err := Validate(b, Rules{Compacted: true, TimestampAfterMax: time.Hour, KeepCodec: true},
		now)
	var detail *BatchError
	if !errors.As(err, &detail) || !errors.Is(err, ErrInvalidTimestamp) {
		t.Fatalf("%v, want a BatchError about timestamps", err)
	}
	if len(detail.Records) != 2 || detail.Records[0].Index != 1 || detail.Records[1].Index != 2 {
		t.Errorf("records %+v, want 1 (null key) and 2 (timestamp)", detail.Records)
	}
	if !strings.Contains(err.Error(), "record 1") {
		t.Errorf("the message %q does not name the first record", err)
	}
}

func TestBatchErrorListsAtMost100Records(t *testing.T) {
	_, err := Validate(clientBatch(t, compress.Gzip, make([]Record, 5000)...),
		Rules{Compacted: true, KeepCodec: true}, now)
	var detail *BatchError
	if !errors.As(err, &detail) || len(detail.Records) != 100 ||
		!strings.Contains(detail.Message, "5000") {
		t.Errorf("%v", err)
	}
}

func TestBatchInTheTopicsCodecIsStoredUnchanged(t *testing.T) { // applies even if the level differs
	for _, rules := range []Rules{{KeepCodec: true}, {Codec: compress.Zstd, CodecLevel: 19}} {
		sent := clientBatch(t, compress.Zstd, keyed("a", "1", 10), keyed("b", "2", 20))
		valid, err := Validate(sent, rules, now)
		if err != nil || &valid.Batch[0] != &sent[0] || valid.MaxTimestamp != 20 {
			t.Errorf("%+v: %v, max timestamp %d", rules, err, valid.MaxTimestamp)
		}
	}
}

func TestBatchIsRecompressedInTheTopicsCodec(t *testing.T) {
	for from := compress.None; from <= compress.Zstd; from++ {
		for to := compress.None; to <= compress.Zstd; to++ {
			sent := clientBatch(t, from, keyed("a", "1", 10),
				Record{Key: []byte("b"), Timestamp: 5, Headers: []Header{{Key: []byte("h")}}})
			want := texts(collect(t, sent))
			valid, err := Validate(sent, Rules{Codec: to, CodecLevel: compress.LevelDefault}, now)
			if err != nil {
				t.Fatal(from, to, err)
			}
			b := valid.Batch
			if b.Codec() != to || b.CheckCRC() != nil || !slices.Equal(texts(collect(t, b)), want) {
				t.Errorf("%s to %s: codec %s, %v, records %v", from, to, b.Codec(), b.CheckCRC(),
					texts(collect(t, b)))
			}
			if b.ProducerID() != -1 || b.BaseSequence() != -1 || b.MaxTimestamp() != 10 ||
				valid.MaxTimestamp != 10 {
				t.Errorf("%s to %s: header %+v", from, to, IdentityOf(b))
			}
		}
	}
}

// TestCompressIsCalledForRecompressedBatchesOnly also checks that a pooled builder does not keep
// the Compress function of the previous batch.
func TestCompressIsCalledForRecompressedBatchesOnly(t *testing.T) {
	calls := 0
	instrumented := Rules{Codec: compress.LZ4, CodecLevel: compress.LevelDefault,
		Compress: func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
			calls++
			return compress.To(dst, src, codec, level)
		}}
	plain := instrumented
	plain.Compress = nil
	for i, test := range []struct {
		from  compress.Codec
		rules Rules
		calls int
	}{{compress.Gzip, instrumented, 1}, {compress.LZ4, instrumented, 1}, {compress.Gzip, plain, 1},
		{compress.None, instrumented, 2}} {
		valid, err := Validate(clientBatch(t, test.from, keyed("a", "1", 10)), test.rules, now)
		if err != nil || valid.Batch.Codec() != compress.LZ4 || calls != test.calls {
			t.Errorf("case %d: %v, codec %s, %d calls so far, want %d", i, err, valid.Batch.Codec(),
				calls, test.calls)
		}
	}
}

func TestLogAppendTimeIsSet(t *testing.T) { // checks a change in place and a recompressed batch
	for codec := compress.None; codec <= compress.Gzip; codec++ {
		rules := Rules{TimestampType: LogAppendTime, Codec: codec,
			CodecLevel: compress.LevelDefault}
		valid, err := Validate(clientBatch(t, compress.None, keyed("a", "1", 10)), rules, now)
		if err != nil {
			t.Fatal(err)
		}
		b := valid.Batch
		if b.TimestampType() != LogAppendTime || b.MaxTimestamp() != now.UnixMilli() ||
			b.CheckCRC() != nil || b.Codec() != codec {
			t.Errorf("type %d, max %d, %v", b.TimestampType(), b.MaxTimestamp(), b.CheckCRC())
		}
		if got := collect(t, b)[0].Timestamp; got != now.UnixMilli() {
			t.Errorf("record timestamp %d", got)
		}
	}
}

func TestWrongMaxTimestampIsCorrected(t *testing.T) {
	valid, err := Validate(modified(t, func(b Batch) { b.setMaxTimestamp(5) }), Rules{}, now)
	if err != nil || valid.Batch.MaxTimestamp() != 20 || valid.Batch.CheckCRC() != nil {
		t.Errorf("%v, max %d, %v", err, valid.Batch.MaxTimestamp(), valid.Batch.CheckCRC())
	}
}

func TestOffsetDeltasAreCorrected(t *testing.T) {
	sent := clientBatch(t, compress.Snappy, keyed("a", "1", 10), keyed("b", "2", 20))
	wrong := clientBatch(t, compress.None, keyed("a", "1", 10), keyed("b", "2", 20))
	// Find offset delta 1, key length 1, and the key.
	index := bytes.LastIndex(wrong, []byte{2, 2, 'b'})
	wrong[index] = 0
	wrong.setCRC()
	for name, b := range map[string]Batch{"consecutive": sent, "both 0": wrong} {
		valid, err := Validate(b, Rules{KeepCodec: true}, now)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := fmt.Sprint(texts(collect(t, valid.Batch))); got != `[0@10 "a"="1" 1@20 "b"="2"]` {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		f.Add([]byte(clientBatch(f, codec, keyed("a", "1", 10), keyed("b", "2", 20))),
			int8(codec+1)%5, false)
	}
	f.Fuzz(func(t *testing.T, buf []byte, codec int8, appendTime bool) {
		if len(buf) >= HeaderBytes {
			Batch(buf).setCRC() // without a correct checksum, almost every input would be rejected
		}
		rules := Rules{Compacted: true, DecompressedMax: 1 << 20, BytesMax: 1 << 20,
			CodecLevel: compress.LevelDefault}
		rules.Codec, rules.KeepCodec = compress.Codec(uint8(codec)%5), codec < 0
		if appendTime {
			rules.TimestampType = LogAppendTime
		}
		valid, err := Validate(buf, rules, now)
		if err != nil {
			return
		}
		b, rest, err := Next(valid.Batch)
		if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
			t.Fatalf("Validate accepted an invalid batch: %v, %v", err, b.CheckCRC())
		}
		if err := b.Records(1<<20, func(*Record) error { return nil }); err != nil {
			t.Fatalf("Validate accepted unreadable records: %v", err)
		}
	})
}
