package compress

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll reads all of packed through a Reader. wrap wraps its source.
func readAll(packed []byte, codec Codec, memoryMax int, wrap func(io.Reader) io.Reader) ([]byte,
	error) {
	r := NewReader(wrap(bytes.NewReader(packed)), codec, memoryMax)
	defer r.Close()
	return io.ReadAll(r)
}

func unwrapped(r io.Reader) io.Reader { return r }

func TestReaderEqualsDecompress(t *testing.T) {
	for name, sample := range samples() {
		for codec := None; codec <= Zstd; codec++ {
			packed, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			for source, wrap := range map[string]func(io.Reader) io.Reader{"whole": unwrapped,
				"halves": iotest.HalfReader, "the end with data": iotest.DataErrReader} {
				// memoryMax is less than the sample, because only one piece is needed at a time.
				if out, err := readAll(packed, codec, 128<<10, wrap); err != nil ||
					!bytes.Equal(out, sample) {
					t.Errorf("%s of %s, %s: got %d of %d bytes, %v", codec, name, source, len(out),
						len(sample), err)
				}
			}
		}
	}
}

func TestReaderAcceptsTheSameForeignFramesAsDecompress(t *testing.T) {
	text := foreignText()
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		out, err := readAll(packed, codec, 1<<20, unwrapped)
		if strings.HasPrefix(name, "refused-") {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: got %d bytes, %v; want ErrCorrupt or ErrTooLarge", name, len(out),
					err)
			}
			return
		}
		if err != nil || !bytes.Equal(out, text) {
			t.Errorf("%s: got %d of %d bytes, %v", name, len(out), len(text), err)
		}
	})
}

func TestReaderDistinguishesSourceErrorsFromBadData(t *testing.T) {
	broken := errors.New("connection lost")
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if strings.HasPrefix(name, "refused-") {
			return
		}
		for _, at := range []int{0, 3, 7, len(packed) / 2} {
			_, err := readAll(packed, codec, 1<<20, func(io.Reader) io.Reader {
				return io.MultiReader(bytes.NewReader(packed[:at]), iotest.ErrReader(broken))
			})
			if !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s with a source that fails at %d: %v, want the error of the source",
					name, at, err)
			}
		}
	})
}

// TestReaderMemoryIsBounded checks that memory depends on pieces and windows, and not on the total
// decoded size or on what a frame declares.
func TestReaderMemoryIsBounded(t *testing.T) {
	const memoryMax = 1 << 20
	check := func(name string, packed []byte, codec Codec) {
		t.Helper()
		read := func() {
			r := NewReader(bytes.NewReader(packed), codec, memoryMax)
			defer r.Close()
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		read() // fills the pools
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read()
		runtime.ReadMemStats(&after)
		// The maximum is two windows of zstd, or blocks of LZ4 of 4 MiB.
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 20<<20 {
			t.Errorf("%s: allocated %d bytes, want at most 20 MiB", name, allocated)
		}
	}
	bomb := make([]byte, 64<<20)
	for codec := None; codec <= Zstd; codec++ {
		packed, err := Compress(nil, bomb, codec, LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		check(codec.String(), packed, codec)
	}
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if !strings.HasPrefix(name, "refused-") {
			check(name, packed, codec)
		}
	})
}

func TestReaderRejectsPiecesAboveItsLimit(t *testing.T) {
	text := foreignText()
	for _, name := range []string{"raw-block.snappy", "xerial-one-block.snappy",
		"long-window-27.zstd"} {
		found := false
		foreignFrames(t, func(frame string, codec Codec, packed []byte) {
			if frame != name {
				return
			}
			found = true
			for memoryMax, tooLarge := range map[int]bool{len(text) - 1: true, len(text): false} {
				_, err := readAll(packed, codec, memoryMax, unwrapped)
				if errors.Is(err, ErrTooLarge) != tooLarge {
					t.Errorf("%s with a limit of %d for %d bytes: %v", name, memoryMax, len(text),
						err)
				}
			}
		})
		if !found {
			t.Errorf("frame %s not found", name)
		}
	}
}

// TestOwnZstdFramesStreamAtEveryLevel checks that every frame that this package writes can be read
// in pieces, because its window is not above zstdStreamWindowMax.
func TestOwnZstdFramesStreamAtEveryLevel(t *testing.T) {
	long := bytes.Repeat(foreignText(), 80) // 11 MB, more than every window
	for _, level := range []int{-5, 3, 7, 22} {
		packed, err := Compress(nil, long, Zstd, level)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := readAll(packed, Zstd, 1<<20, unwrapped); err != nil ||
			!bytes.Equal(out, long) {
			t.Errorf("level %d: got %d of %d bytes, %v", level, len(out), len(long), err)
		}
	}
}

// FuzzReader compares a Reader with Decompress on arbitrary bytes. A Reader returns the data before
// a fault. It may return ErrTooLarge for a declared size where Decompress detects that the bytes
// are missing.
func FuzzReader(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		packed, err := Compress(nil, []byte("hello hello hello"), codec, LevelDefault)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(codec), packed)
	}
	// regression: a truncated header was treated as empty data
	f.Add(int8(Gzip), []byte("\x1f\x8b\b\xda\x00\ta_^^"))
	foreignFrames(f, func(_ string, codec Codec, packed []byte) {
		if len(packed) < 4<<10 {
			f.Add(int8(codec), packed)
		}
	})
	f.Fuzz(func(t *testing.T, number int8, packed []byte) {
		const limit = 4 << 20
		codec := Codec(number)
		want, wantErr := Decompress(nil, packed, codec, limit)
		r := NewReader(bytes.NewReader(packed), codec, limit)
		defer r.Close()
		got, err := io.ReadAll(io.LimitReader(r, limit+1)) // bounds a decompression bomb
		switch {
		case errors.Is(wantErr, ErrTooLarge): // the pieces may still be small enough
		case wantErr == nil:
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: Decompress returns %d bytes; Reader returns %d, %v", codec, len(want),
					len(got), err)
			}
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge):
			t.Fatalf("%s: Decompress returns %v; Reader returns %d bytes, %v", codec, wantErr,
				len(got), err)
		}
	})
}
