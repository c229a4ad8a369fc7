package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// zeroDeltas returns a gzip batch of two records, both with offset delta 0, like the compressed
// batches of old producers.
func zeroDeltas(t *testing.T) Batch {
	t.Helper()
	record := []byte{0x0c, 0, 0, 0, 1, 1, 0}
	packed, err := compress.Compress(nil, append(slices.Clone(record), record...), compress.Gzip, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := append(make(Batch, HeaderBytes), packed...)
	putHeader(b, Identity{LastOffsetDelta: 1, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		1000, 1000)
	b.setAttributes(int16(compress.Gzip))
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-lengthEnd))
	binary.BigEndian.PutUint32(b[countAt:], 2)
	b.setCRC()
	return b
}

func TestRenumberedBatchIsCompressedAtTheTopicsLevel(t *testing.T) {
	for _, tt := range []struct {
		rules Rules
		level int
	}{
		{Rules{Codec: compress.Gzip, CodecLevel: 9}, 9},
		{Rules{KeepCodec: true, CodecLevel: 9}, compress.LevelDefault},
	} {
		var levels []int
		tt.rules.Compress = func(dst *compress.Chunks, src []byte, codec compress.Codec,
			level int) error {
			levels = append(levels, level)
			return compress.To(dst, src, codec, level)
		}
		valid, err := Validate(zeroDeltas(t), tt.rules, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(collect(t, valid.Batch)); !slices.Equal(got,
			[]string{"0@1000 null=null", "1@1000 null=null"}) {
			t.Errorf("records %v", got)
		}
		if !slices.Equal(levels, []int{tt.level}) || valid.Batch.Codec() != compress.Gzip {
			t.Errorf("codec %s, compressed at levels %v, want %d", valid.Batch.Codec(), levels,
				tt.level)
		}
	}
}

// TestBuilderProducesTheDocumentedBytes compares a built batch with the bytes in
// docs/internals/format/batch.md.
func TestBuilderProducesTheDocumentedBytes(t *testing.T) {
	want, err := hex.DecodeString("0000000000000000" + "0000003a" + "ffffffff" + "02" + "00000000" +
		"0000" + "00000000" + "0000018bcfe56800" +
		"0000018bcfe56800" + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001" + "10" + "00" +
		"0000" + "026b" + "0276" + "00")
	if err != nil {
		t.Fatal(err)
	}
	Batch(want).setCRC()
	if got := clientBatch(t, compress.None, keyed("k", "v", 1_700_000_000_000)); !bytes.Equal(got,
		want) {
		t.Errorf("got %x, want %x", []byte(got), want)
	}
}
