package compress

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// TestSingleStreamsAreToldFromConcatenations checks, for each codec, that DecompressSingle returns
// the same bytes as Decompress, and detects concatenations and bytes after the stream.
func TestSingleStreamsAreToldFromConcatenations(t *testing.T) {
	for name, sample := range samples() {
		for codec := None; codec.Valid(); codec++ {
			one, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			empty, err := Compress(nil, nil, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			wantSingle(t, name+" "+codec.String(), codec, one, sample, true)
			if codec == None {
				continue
			}
			behind := slices.Concat(sample, sample)
			if codec == LZ4 { // Decompress stops after the first frame, as Kafka does
				wantSingle(t, name+" lz4 with more bytes", codec, slices.Concat(one, []byte{1}),
					sample, false)
				behind = sample
			}
			wantSingle(t, name+" twice "+codec.String(), codec, slices.Concat(one, one), behind,
				false)
			if codec != LZ4 {
				wantSingle(t, name+" after nothing "+codec.String(), codec,
					slices.Concat(empty, one), sample, false)
			}
		}
	}
}

func wantSingle(t *testing.T, name string, codec Codec, packed, want []byte, wantSingle bool) {
	t.Helper()
	out, single, err := DecompressSingle([]byte("before"), packed, codec, 1<<24)
	if err != nil || single != wantSingle || !bytes.Equal(out, append([]byte("before"), want...)) {
		t.Errorf("%s: %d bytes, single %v, error %v; want %d bytes, %v", name, len(out), single,
			err, len(want), wantSingle)
	}
}

// TestSingleStreamsOfOtherWriters checks that DecompressSingle does not mistake a stream for a
// concatenation because of checksums, content sizes or block sizes that Heartwood does not write.
func TestSingleStreamsOfOtherWriters(t *testing.T) {
	sample := samples()["long"]
	for _, options := range [][]lz4.Option{{lz4.ChecksumOption(true)}, {lz4.ChecksumOption(false)},
		{lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)},
		{lz4.SizeOption(uint64(len(sample)))}} {
		var packed bytes.Buffer
		w := lz4.NewWriter(&packed)
		if err := errors.Join(w.Apply(options...), discardCount(w.Write(sample)),
			w.Close()); err != nil {
			t.Fatal(err)
		}
		wantSingle(t, "lz4", LZ4, packed.Bytes(), sample, true)
	}
	for _, crc := range []bool{true, false} {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(crc))
		if err != nil {
			t.Fatal(err)
		}
		for _, content := range [][]byte{sample, make([]byte, 1<<20), {}, []byte("x")} {
			packed := w.EncodeAll(content, nil)
			if len(packed) > 0 {
				wantSingle(t, "zstd", Zstd, packed, content, true)
			}
			wantSingle(t, "zstd", Zstd, append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7},
				packed...), content, false) // a skippable frame
		}
	}
	if _, _, err := DecompressSingle(nil, slices.Concat([]byte{0x1f, 0x8b}, sample), Gzip,
		1<<24); !errors.Is(err, ErrCorrupt) {
		t.Errorf("corrupt gzip: %v", err)
	}
	two, err := Compress(nil, sample, Gzip, LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := DecompressSingle(nil, slices.Concat(two, two), Gzip,
		2*len(sample)-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("two members above the limit: %v", err)
	}
	if _, _, err := DecompressSingle(nil, slices.Concat(two, []byte("rest")), Gzip,
		1<<24); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a member and other bytes: %v", err)
	}
}
