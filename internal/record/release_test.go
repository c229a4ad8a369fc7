package record

import (
	"errors"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// TestReleaseReturnsBuffersOnce checks that pooled memory is returned exactly once, for each
// outcome of Validate. If memory were returned twice, two batches would use it at the same time.
func TestReleaseReturnsBuffersOnce(t *testing.T) {
	failure := errors.New("encoder failed")
	failing := func(dst *compress.Chunks, src []byte, _ compress.Codec, _ int) error {
		_, _ = dst.Write(src) // this encoder fails after it has written output
		return failure
	}
	compressed := func() Batch {
		return clientBatch(t, compress.Zstd, keyed("a", "1", 10),
			Record{Key: []byte("b"), Value: make([]byte, 9999)})
	}
	zeroDelta := func() Batch { // a batch in which both records have offset delta 0
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
		"unchanged": {compressed(), Rules{KeepCodec: true}, false},
		"recompressed": {compressed(),
			Rules{Codec: compress.LZ4, CodecLevel: compress.LevelDefault}, false},
		"decompressed": {compressed(), Rules{}, false},
		"rebuilt":      {zeroDelta(), Rules{KeepCodec: true}, false},
		"rebuilt and compressed": {zeroDelta(),
			Rules{Codec: compress.Gzip, CodecLevel: compress.LevelDefault}, false},
		"corrupt payload": {corrupted(compressed()), Rules{KeepCodec: true}, true},
		"decompressed size beyond the limit": {compressed(),
			Rules{KeepCodec: true, DecompressedMax: 100}, true},
		"rejected record": {clientBatch(t, compress.Gzip, Record{}),
			Rules{Compacted: true, KeepCodec: true}, true},
		"encoder fails": {compressed(),
			Rules{Codec: compress.LZ4, Compress: failing}, true},
		"encoder fails while rebuilding": {zeroDelta(),
			Rules{Codec: compress.LZ4, Compress: failing}, true},
		"too large when recompressed": {compressed(), Rules{BytesMax: 2000}, true},
	} {
		for range 20 {
			valid, err := Validate(append(Batch(nil), c.batch...), c.rules, now)
			if (err != nil) != c.fails {
				t.Fatalf("%s: %v", name, err)
			}
			valid.Release() // must have no effect after an error
			valid.Release() // must have no effect the second time
		}
		checkPools(t, name)
	}
}

// corrupted returns a batch whose payload is corrupted and whose checksum matches.
func corrupted(b Batch) Batch {
	b[HeaderBytes+2] ^= 0xff
	b.setCRC()
	return b
}

// checkPools takes more objects from the pools than were ever in use at once, and checks that no
// pool contains an object twice.
func checkPools(t *testing.T, name string) {
	t.Helper()
	seen := map[any]bool{}
	taken := func(kind string, p any) {
		if seen[p] {
			t.Fatalf("%s: the pool returned a %s twice", name, kind)
		}
		seen[p] = true
	}
	for range 50 {
		taken("buffer", getBuffer())
		taken("builder", builders.Get().(*Builder))
		chunks := compress.NewChunks()
		taken("list of chunks", chunks)
		taken("chunk", &chunks.Reserve(1)[0])
	}
}
