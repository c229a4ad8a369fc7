package record

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// TestConcatenationsAreCompressedAgain checks that a batch whose records are compressed in two
// parts is stored with one part, because some clients read only the first. Its records and codec
// must not change. A batch with one part must be stored unchanged.
func TestConcatenationsAreCompressedAgain(t *testing.T) {
	for _, codec := range []compress.Codec{compress.Gzip, compress.Snappy, compress.Zstd} {
		plain := clientBatch(t, compress.None, keyed("a", "1", 10), keyed("b", "2", 20),
			keyed("c", "3", 30))
		want := collect(t, plain)
		for _, parts := range []int{1, 2} {
			sent := slices.Clone(plain[:HeaderBytes])
			payload := plain[HeaderBytes:]
			cut := len(payload) * (parts - 1) / 2
			for _, part := range [][]byte{payload[:cut], payload[cut:]} {
				if len(part) == 0 {
					continue
				}
				var err error
				if sent, err = compress.Compress(sent, part, codec,
					compress.LevelDefault); err != nil {
					t.Fatal(err)
				}
			}
			binary.BigEndian.PutUint32(sent[lengthAt:], uint32(len(sent)-lengthEnd))
			sent.setAttributes(int16(codec))
			sent.setCRC()
			original := slices.Clone(sent)
			valid, err := Validate(sent, Rules{KeepCodec: true}, now)
			if err != nil {
				t.Fatal(codec, err)
			}
			stored := Batch(joined(valid.Parts()))
			_, single, err := compress.DecompressSingle(nil, stored[HeaderBytes:], codec, 1<<20)
			if err != nil || !single {
				t.Errorf("%s in %d parts: single %v, error %v", codec, parts, single, err)
			}
			if err := stored.CheckCRC(); err != nil || stored.Codec() != codec {
				t.Errorf("%s in %d parts: codec %s, %v", codec, parts, stored.Codec(), err)
			}
			if got := collect(t, stored); !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %d parts: records %v, want %v", codec, parts, got, want)
			}
			if unchanged := slices.Equal(stored, original); unchanged != (parts == 1) {
				t.Errorf("%s in %d parts: unchanged %v", codec, parts, unchanged)
			}
			valid.Release()
		}
	}
}

func joined(p Parts) []byte { return slices.Concat(append([][]byte{p.Batch}, p.Rest...)...) }
