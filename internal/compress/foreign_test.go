package compress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// foreignText returns the decompressed contents of each frame in testdata/foreign. The function
// content in testdata/foreign/make.py creates the same text.
func foreignText() []byte {
	var out bytes.Buffer
	for i := range 2800 {
		fmt.Fprintf(&out, "{\"id\":%d,\"subject\":\"ticket %d\",\"status\":\"open\"}\n", i,
			i*7919%1000)
	}
	return out.Bytes()
}

func foreignFrames(t testing.TB, visit func(name string, codec Codec, packed []byte)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/foreign/*.*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		codec, err := ParseCodec(strings.TrimPrefix(filepath.Ext(path), "."))
		if err != nil {
			continue // the script that made the frames
		}
		packed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found++
		visit(filepath.Base(path), codec, packed)
	}
	if found < 35 {
		t.Fatalf("found %d frames in testdata/foreign, want at least 35", found)
	}
}

// TestForeignFramesAreDecoded reads frames that were made with Python's lz4, zstandard and snappy,
// which wrap the C libraries.
func TestForeignFramesAreDecoded(t *testing.T) {
	text := foreignText()
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		out, err := Decompress(nil, packed, codec, len(text))
		if strings.HasPrefix(name, "refused-") {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: %d bytes, %v, want ErrCorrupt", name, len(out), err)
			}
			return
		}
		if err != nil || !bytes.Equal(out, text) {
			t.Errorf("%s: got %d bytes, %v; want the text", name, len(out), err)
		}
		if _, err := Decompress(nil, packed, codec, len(text)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s with a limit one byte too low: %v, want ErrTooLarge", name, err)
		}
	})
}

// TestTruncatedForeignFramesNeverDecodeToOtherBytes truncates each frame at many positions.
// Decompress must return an error or a prefix of the text. It can return a prefix if the truncated
// frame ends between two independent parts, such as gzip members.
func TestTruncatedForeignFramesNeverDecodeToOtherBytes(t *testing.T) {
	text := foreignText()
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if strings.HasPrefix(name, "refused-") {
			return
		}
		for cut := 0; cut < len(packed); cut += 1 + len(packed)/23 {
			out, err := Decompress(nil, packed[:cut], codec, len(text))
			if err == nil && !bytes.HasPrefix(text, out) || err != nil &&
				!errors.Is(err, ErrCorrupt) {
				t.Errorf("%s truncated to %d bytes: got %d bytes, %v", name, cut, len(out), err)
			}
		}
	})
}

// TestForeignFrameAllocationIsBoundedByLimit checks that the allocated memory depends on the
// decoded data and the limit, and not on the sizes and windows that a frame declares.
func TestForeignFrameAllocationIsBoundedByLimit(t *testing.T) {
	const limit = 10_000
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		_, _ = Decompress(nil, packed, codec, limit) // fills the pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Decompress(nil, packed, codec, limit)
		runtime.ReadMemStats(&after)
		// The largest allocation is one LZ4 block of at most 4 MiB.
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 5<<20 {
			t.Errorf("%s: allocated %d bytes with a limit of %d", name, allocated, limit)
		}
	})
}

// FuzzCompressThenDecompress checks that arbitrary bytes survive compression and decompression with
// every codec and level. It also checks that Decompress enforces a limit that is one byte too low.
func FuzzCompressThenDecompress(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		for _, level := range []int{-131072, -1, 1, 9, 17, 22, LevelDefault} {
			f.Add([]byte("hello hello hello hello"), int8(codec), level)
		}
	}
	f.Add(bytes.Repeat([]byte("0123456789"), 20_000), int8(LZ4), 3)
	f.Fuzz(func(t *testing.T, src []byte, number int8, level int) {
		codec := Codec(uint8(number) % 5)
		if codec.CheckLevel(level) != nil {
			level = LevelDefault
		}
		packed, err := Compress([]byte("front"), src, codec, level)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Decompress([]byte("dst"), packed[len("front"):], codec, len(src))
		if err != nil || string(out) != "dst"+string(src) {
			t.Fatalf("%s level %d: got %d of %d bytes, %v", codec, level, len(out)-3, len(src), err)
		}
		if len(src) > 0 {
			if _, err := Decompress(nil, packed[len("front"):], codec, len(src)-1); !errors.Is(err,
				ErrTooLarge) {
				t.Fatalf("%s with a limit one byte too low: %v, want ErrTooLarge", codec, err)
			}
		}
	})
}
