package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll reads all of packed through a Reader, whose source is wrapped by wrap.
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
				// Most samples are larger than this limit of 128 KiB, because a Reader holds only one piece at
				// a time.
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
		for _, index := range []int{0, 3, 7, len(packed) / 2} {
			_, err := readAll(packed, codec, 1<<20, func(io.Reader) io.Reader {
				return io.MultiReader(bytes.NewReader(packed[:index]), iotest.ErrReader(broken))
			})
			if !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s with a source that fails at %d: %v, want the error of the source",
					name, index, err)
			}
		}
	})
}

// TestReaderMemoryIsBounded checks that a Reader's memory depends on the size of pieces and
// windows, and not on the total decoded size or on the sizes that a frame declares.
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
		// The limit allows for two zstd windows of 8 MiB, and for LZ4 blocks of 4 MiB.
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

// TestOwnZstdFramesStreamAtEveryLevel checks that a Reader can read every frame that this package
// writes in pieces, because no window exceeds zstdStreamWindowMax.
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

// largeWindowSources returns zstd sources by description. Each contains a frame that needs a window
// above zstdStreamWindowMax.
func largeWindowSources() map[string][]byte {
	const windowLog = 24
	small, large := zstdZeros(3, 20), zstdZeros(5, windowLog)
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'x', 'x'}
	return map[string][]byte{
		"only":                    large,
		"second":                  slices.Concat(small, large),
		"after a skippable frame": slices.Concat(skippable, large),
		"third of four":           slices.Concat(small, skippable, large, small),
		"single segment":          zstdSingleSegment(zstdStreamWindowMax/zstdBlockBytes + 1),
		"second, single segment": slices.Concat(small,
			zstdSingleSegment(zstdStreamWindowMax/zstdBlockBytes+1)),
	}
}

// zstdSingleSegment returns a single-segment zstd frame (RFC 8878, 3.1.1.1.1.2). It decompresses to
// the given number of blocks of 128 KiB of zeros.
func zstdSingleSegment(blocks int) []byte {
	const singleSegment, contentSizeOf4Bytes, headerBytes = 1 << 5, 2 << 6, 6
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, singleSegment | contentSizeOf4Bytes}
	frame = binary.LittleEndian.AppendUint32(frame, uint32(blocks*zstdBlockBytes))
	return append(frame, zstdZeros(blocks, 20)[headerBytes:]...)
}

// TestReaderDecodesLargeWindowsOfEveryFrame is a regression test. Reader and Size returned
// ErrTooLarge for a single-segment frame above 8 MiB. Reader also returned it if a frame other than
// the first had a window above 8 MiB.
func TestReaderDecodesLargeWindowsOfEveryFrame(t *testing.T) {
	const limit = 128 << 20
	for name, packed := range largeWindowSources() {
		want, err := Decompress(nil, packed, Zstd, limit)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for source, wrap := range map[string]func(io.Reader) io.Reader{"whole": unwrapped,
			"byte by byte": iotest.OneByteReader, "the end with data": iotest.DataErrReader} {
			out, err := readAll(packed, Zstd, limit, wrap)
			if err != nil || !bytes.Equal(out, want) {
				t.Errorf("%s, %s: got %d of %d bytes, %v", name, source, len(out), len(want), err)
			}
		}
		if size, err := Size(packed, Zstd, limit); err != nil || size != len(want) {
			t.Errorf("%s: got size %d, %v; want %d", name, size, err, len(want))
		}
	}
}

// TestReaderBoundsTheMemoryOfLargeWindows reads frames with a large window that contain more data
// than a Reader may hold.
func TestReaderBoundsTheMemoryOfLargeWindows(t *testing.T) {
	const memoryMax, windowLog = 1 << 20, 27
	bomb := zstdZeros(4<<30/zstdBlockBytes, windowLog)
	for name, packed := range map[string][]byte{
		"first frame": bomb, "second frame": slices.Concat(zstdZeros(1, 20), bomb),
		"second frame, single segment": slices.Concat(zstdZeros(1, 20), zstdSingleSegment(80)),
	} {
		allocated := allocatedBy(func() {
			if _, err := readAll(packed, Zstd, memoryMax, unwrapped); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: got error %v, want ErrTooLarge", name, err)
			}
		})
		if allocated > 8<<20 {
			t.Errorf("%s: allocated %d bytes, want at most 8 MiB", name, allocated)
		}
	}
}

// TestReaderEqualsDecompressForConcatenatedFrames reads each pair of foreign zstd frames as one
// source.
func TestReaderEqualsDecompressForConcatenatedFrames(t *testing.T) {
	frames := make(map[string][]byte)
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if codec == Zstd {
			frames[name] = packed
		}
	})
	const limit = 1 << 20
	for firstName, first := range frames {
		for secondName, second := range frames {
			packed := slices.Concat(first, second)
			want, wantErr := Decompress(nil, packed, Zstd, limit)
			got, err := readAll(packed, Zstd, limit, unwrapped)
			if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
				t.Errorf("%s, then %s: got %d bytes, %v; want %d, %v", firstName, secondName,
					len(got), err, len(want), wantErr)
			}
		}
	}
}

// FuzzReader compares a Reader with Decompress on arbitrary bytes. A Reader returns the data before
// a fault. A Reader may return ErrTooLarge because of a declared size, where Decompress returns
// ErrCorrupt because bytes are missing.
func FuzzReader(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		packed, err := Compress(nil, []byte("hello hello hello"), codec, LevelDefault)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(codec), packed)
	}
	// Regression test: a truncated header was treated as empty data.
	f.Add(int8(Gzip), []byte("\x1f\x8b\b\xda\x00\ta_^^"))
	foreignFrames(f, func(_ string, codec Codec, packed []byte) {
		if len(packed) < 4<<10 {
			f.Add(int8(codec), packed)
		}
	})
	for _, packed := range largeWindowSources() {
		f.Add(int8(Zstd), packed)
	}
	f.Fuzz(func(t *testing.T, number int8, packed []byte) {
		const limit = 4 << 20
		codec := Codec(number)
		want, wantErr := Decompress(nil, packed, codec, limit)
		r := NewReader(bytes.NewReader(packed), codec, limit)
		defer r.Close()
		got, err := io.ReadAll(io.LimitReader(r, limit+1)) // LimitReader bounds a decompression bomb
		switch {
		case errors.Is(wantErr, ErrTooLarge): // a Reader succeeds if each piece is below the limit
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
