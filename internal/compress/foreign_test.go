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

// foreignText is what the frames in testdata/foreign hold: content() of make.py there.
func foreignText() []byte {
	var out bytes.Buffer
	for i := range 2800 {
		fmt.Fprintf(&out, "{\"id\":%d,\"subject\":\"ticket %d\",\"status\":\"open\"}\n", i,
			i*7919%1000)
	}
	return out.Bytes()
}

// foreignFrames calls visit with each frame of testdata/foreign.
func foreignFrames(t testing.TB, visit func(name string, codec Codec, packed []byte)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/foreign/*.*")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, path := range paths {
		codec, err := ParseCodec(strings.TrimPrefix(filepath.Ext(path), "."))
		if err != nil {
			continue // make.py
		}
		packed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seen++
		visit(filepath.Base(path), codec, packed)
	}
	if seen < 35 {
		t.Fatalf("only %d frames in testdata/foreign", seen)
	}
}

// lz4, zstandard and snappy of Python, which wrap the C libraries
func TestFramesOfForeignClientsAreRead(t *testing.T) {
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
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
		if _, err := Decompress(nil, packed, codec, len(text)-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s with a limit of one byte less: %v, want ErrTooLarge", name, err)
		}
	})
}

// A frame cut anywhere is an error or, where it is cut between whole pieces that stand for
// themselves, a part: never other bytes.
func TestForeignFramesCutAnywhereGiveNoOtherBytes(t *testing.T) {
	text := foreignText()
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if strings.HasPrefix(name, "refused-") {
			return
		}
		for cut := 0; cut < len(packed); cut += 1 + len(packed)/23 {
			out, err := Decompress(nil, packed[:cut], codec, len(text))
			if err == nil && !bytes.HasPrefix(text, out) || err != nil &&
				!errors.Is(err, ErrCorrupt) {
				t.Errorf("%s cut at %d: %d bytes, %v", name, cut, len(out), err)
			}
		}
	})
}

// Sizes and windows in a frame are claims: memory goes by what is decoded and by the limit.
func TestForeignFramesAllocateByTheLimit(t *testing.T) {
	const limit = 10_000
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		_, _ = Decompress(nil, packed, codec, limit) // fills the pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Decompress(nil, packed, codec, limit)
		runtime.ReadMemStats(&after)
		// One block of LZ4 (4 MiB at most) is the largest step.
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 5<<20 {
			t.Errorf("%s: %d bytes allocated for a limit of %d", name, allocated, limit)
		}
	})
}

// Whatever bytes, codec and level: what is packed unpacks to the same, and not with one byte of
// room less.
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
			t.Fatalf("%s level %d: %d of %d bytes, %v", codec, level, len(out)-3, len(src), err)
		}
		if len(src) > 0 {
			if _, err := Decompress(nil, packed[len("front"):], codec, len(src)-1); !errors.Is(err,
				ErrTooLarge) {
				t.Fatalf("%s with too little room: %v", codec, err)
			}
		}
	})
}
