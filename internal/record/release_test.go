package record

import (
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// Whatever way Validate ends, what it took from the pools goes back once. Given back twice it would
// be handed out twice, and two batches would be written into one memory.
func TestReleaseReturnsBuffersOnce(t *testing.T) {
	broken := errors.New("the encoder is out of order")
	failing := func(dst *compress.Chunks, src []byte, _ compress.Codec, _ int) error {
		_, _ = dst.Write(src) // as one that fails half way
		return broken
	}
	packed := func() Batch {
		return clientBatch(t, compress.Zstd, keyed("a", "1", 10),
			Record{Key: []byte("b"), Value: make([]byte, 9999)})
	}
	unordered := func() Batch { // both records say that they are the first
		b := clientBatch(t, compress.None, keyed("a", "1", 10), keyed("b", "2", 20))
		second := HeaderBytes + (len(b)-HeaderBytes)/2
		b[second+3] = 0
		b.setCRC()
		return b
	}
	for name, c := range map[string]struct {
		batch Batch
		rules Rules
		fails bool
	}{
		"as it came": {packed(), Rules{KeepCodec: true}, false},
		"recompressed": {packed(),
			Rules{Codec: compress.LZ4, CodecLevel: compress.LevelDefault}, false},
		"decompressed": {packed(), Rules{}, false},
		"rebuilt":      {unordered(), Rules{KeepCodec: true}, false},
		"rebuilt and compressed": {unordered(),
			Rules{Codec: compress.Gzip, CodecLevel: compress.LevelDefault}, false},
		"does not decompress": {spoiled(packed()), Rules{KeepCodec: true}, true},
		"decompresses to too much": {packed(),
			Rules{KeepCodec: true, DecompressedMax: 100}, true},
		"a record is refused": {clientBatch(t, compress.Gzip, Record{}),
			Rules{Compacted: true, KeepCodec: true}, true},
		"the encoder fails": {packed(),
			Rules{Codec: compress.LZ4, Compress: failing}, true},
		"the encoder fails while rebuilding": {unordered(),
			Rules{Codec: compress.LZ4, Compress: failing}, true},
		"too large when recompressed": {packed(), Rules{BytesMax: 2000}, true},
	} {
		for range 20 {
			valid, err := Validate(append(Batch(nil), c.batch...), c.rules, now)
			if (err != nil) != c.fails {
				t.Fatalf("%s: %v", name, err)
			}
			valid.Release() // of a failure it is nothing
			valid.Release() // nor is anything left after the first
		}
		checkPools(t, name)
	}
}

// spoiled spoils a batch's payload, not its header.
func spoiled(b Batch) Batch {
	b[HeaderBytes+2] ^= 0xff
	b.setCRC()
	return b
}

// checkPools takes more out of the pools than was ever in use at once: nothing may come twice.
func checkPools(t *testing.T, name string) {
	t.Helper()
	seen := map[any]bool{}
	taken := func(kind string, p any) {
		if seen[p] {
			t.Fatalf("%s: a %s is handed out twice", name, kind)
		}
		seen[p] = true
	}
	for range 50 {
		taken("buffer", takeBuffer())
		taken("builder", builders.Get().(*Builder))
		chunks := compress.NewChunks()
		taken("list of chunks", chunks)
		taken("chunk", &chunks.Reserve(1)[0])
	}
}
