package compress

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// samples returns payloads whose sizes are near the block sizes (32 KiB for snappy, 64 KiB for lz4,
// 128 KiB for zstd), and a payload larger than a window.
func samples() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200<<10)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	var text strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&text, `{"id":%d,"subject":"ticket %d","status":"open"}`, i, random.IntN(1000))
	}
	long := []byte(text.String())
	return map[string][]byte{
		"empty": {}, "one byte": {7}, "text": long[:5000], "32K": long[:32<<10],
		"32K+1": long[:32<<10+1], "64K": long[:64<<10],
		"64K+1": long[:64<<10+1], "long": long, "noise": noise, "zeros": make([]byte, 3<<20),
	}
}

func TestRoundTripAtEveryLevel(t *testing.T) {
	levels := map[Codec][]int{
		None: {LevelDefault}, Snappy: {LevelDefault}, Gzip: {LevelDefault, 1, 6, 9},
		LZ4:  {LevelDefault, 1, 9, 12, 17},
		Zstd: {LevelDefault, -131072, 0, 3, 7, 22},
	}
	for name, sample := range samples() {
		for codec, list := range levels {
			for _, level := range list {
				packed, err := Compress([]byte("head"), sample, codec, level)
				if err != nil || !bytes.HasPrefix(packed, []byte("head")) {
					t.Fatalf("%s level %d of %s: %v", codec, level, name, err)
				}
				out, err := Decompress([]byte("front"), packed[4:], codec, len(sample))
				if err != nil || !bytes.Equal(out, append([]byte("front"), sample...)) {
					t.Fatalf("%s level %d of %s does not round trip: %v", codec, level, name, err)
				}
			}
		}
	}
}

// TestZstdCompressesTextWithoutRepetition checks that zstd uses the entropy of random letters (4.7
// bits each for 26 letters) at every level.
func TestZstdCompressesTextWithoutRepetition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := make([]byte, 64<<10)
	for i := range letters {
		letters[i] = 'a' + byte(random.IntN(26))
	}
	for _, level := range []int{LevelDefault, 1, 3, 9, 19} {
		packed, err := Compress(nil, letters, Zstd, level)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > len(letters)*5/8 {
			t.Errorf("level %d: %d bytes for %d letters, want at most 5/8", level, len(packed),
				len(letters))
		}
	}
}

func TestDecompressEnforcesLimitExactly(t *testing.T) {
	for name, sample := range samples() {
		if len(sample) == 0 {
			continue
		}
		for codec := None; codec <= Zstd; codec++ {
			packed, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decompress(nil, packed, codec, len(sample)-1); !errors.Is(err,
				ErrTooLarge) {
				t.Errorf("%s of %s with a limit one byte too low: %v, want ErrTooLarge", codec,
					name, err)
			}
		}
	}
}

// TestDecompressionBombIsBoundedByLimit decompresses a few kilobytes that expand to 64 MiB. In
// Kafka such a batch exhausted the log cleaner's memory (Kafka's PR #23429).
func TestDecompressionBombIsBoundedByLimit(t *testing.T) {
	bomb := make([]byte, 64<<20)
	const limit = 1 << 20
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		packed, err := Compress(nil, bomb, codec, LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		dst := []byte("kept")
		out, err := Decompress(dst, packed, codec, limit)
		if !errors.Is(err, ErrTooLarge) || string(out) != "kept" {
			t.Errorf("%s: %v, want ErrTooLarge and dst unchanged", codec, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Decompress(nil, packed, codec, limit)
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4*limit+5<<20 {
			t.Errorf("%s allocated %d bytes with a limit of %d", codec, allocated, limit)
		}
	}
}

func TestTruncatedAndGarbledInputIsCorrupt(t *testing.T) {
	sample := samples()["64K+1"]
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		packed, err := Compress(nil, sample, codec, LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		for _, cut := range []int{1, 3, 5, 10, 17, 100, len(packed) / 2, len(packed) - 1} {
			if _, err := Decompress(nil, packed[:cut], codec, 1<<20); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s truncated to %d of %d bytes: %v, want ErrCorrupt", codec, cut,
					len(packed), err)
			}
		}
		if _, err := Decompress(nil, []byte("\xff\xfe\xfdnonsense, surely"), codec,
			1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s of arbitrary bytes: %v, want ErrCorrupt", codec, err)
		}
	}
	for _, codec := range []Codec{5, 7, -1} {
		if _, err := Decompress(nil, nil, codec, 10); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", codec, err)
		}
		if _, err := Compress(nil, nil, codec, LevelDefault); err == nil {
			t.Errorf("Compress accepted %s", codec)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	all := samples()
	var wg sync.WaitGroup
	for codec := None; codec <= Zstd; codec++ {
		for name, sample := range all {
			wg.Go(func() {
				packed, err := Compress(nil, sample, codec, LevelDefault)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := Decompress(nil, packed, codec, len(sample))
				if err != nil || !bytes.Equal(out, sample) {
					t.Errorf("%s of %s: %v", codec, name, err)
				}
			})
		}
	}
	wg.Wait()
}

func FuzzDecompress(f *testing.F) {
	for _, sample := range [][]byte{nil, []byte("hello hello hello"), make([]byte, 70_000)} {
		for codec := None; codec <= Zstd; codec++ {
			packed, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(int8(codec), packed)
		}
	}
	f.Fuzz(func(t *testing.T, codec int8, packed []byte) {
		const limit = 1 << 20
		out, err := Decompress(nil, packed, Codec(codec), limit)
		if len(out) > limit {
			t.Fatalf("got %d bytes with a limit of %d", len(out), limit)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("the error is neither ErrCorrupt nor ErrTooLarge: %v", err)
		}
	})
}
