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

// readAll reads all of packed through a Reader whose source comes through wrap.
func readAll(packed []byte, codec Codec, held int, wrap func(io.Reader) io.Reader) ([]byte, error) {
	r := NewReader(wrap(bytes.NewReader(packed)), codec, held)
	defer r.Close()
	return io.ReadAll(r)
}

func whole(r io.Reader) io.Reader { return r }

func TestReaderGivesWhatDecompressGives(t *testing.T) {
	for name, sample := range samples() {
		for codec := None; codec <= Zstd; codec++ {
			packed, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			for way, wrap := range map[string]func(io.Reader) io.Reader{"whole": whole,
				"halves": iotest.HalfReader, "the end with data": iotest.DataErrReader} {
				// Held is less than the sample: no more than a piece of it is needed at once.
				if out, err := readAll(packed, codec, 128<<10, wrap); err != nil ||
					!bytes.Equal(out, sample) {
					t.Errorf("%s of %s, %s: %d of %d bytes, %v", codec, name, way, len(out),
						len(sample), err)
				}
			}
		}
	}
}

func TestReaderTakesAndRefusesForeignFramesAsDecompressDoes(t *testing.T) {
	text := foreignText()
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		out, err := readAll(packed, codec, 1<<20, whole)
		if strings.HasPrefix(name, "refused-") {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %d bytes, %v", name, len(out), err)
			}
			return
		}
		if err != nil || !bytes.Equal(out, text) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(out), len(text), err)
		}
	})
}

func TestReaderTellsASourceThatFailsFromBadData(t *testing.T) {
	broken := errors.New("the cable is out")
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		if strings.HasPrefix(name, "refused-") {
			return
		}
		for _, at := range []int{0, 3, 7, len(packed) / 2} {
			_, err := readAll(packed, codec, 1<<20, func(io.Reader) io.Reader {
				return io.MultiReader(bytes.NewReader(packed[:at]), iotest.ErrReader(broken))
			})
			if !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, the source fails at %d: %v", name, at, err)
			}
		}
	})
}

// Memory goes by pieces and windows, whatever all of it decodes to, and whatever a frame says of
// itself.
func TestReaderNeedsNoMoreMemoryThanItHolds(t *testing.T) {
	const held = 1 << 20
	check := func(name string, packed []byte, codec Codec) {
		t.Helper()
		read := func() {
			r := NewReader(bytes.NewReader(packed), codec, held)
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
		// Two windows of zstd, or blocks of LZ4 of 4 MiB, are the most.
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 20<<20 {
			t.Errorf("%s: %d bytes allocated", name, allocated)
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

func TestReaderOfPiecesLargerThanItHoldsIsTooLarge(t *testing.T) {
	text := foreignText()
	for _, name := range []string{"raw-block.snappy", "xerial-one-block.snappy",
		"long-window-27.zstd"} {
		found := false
		foreignFrames(t, func(frame string, codec Codec, packed []byte) {
			if frame != name {
				return
			}
			found = true
			for held, tooLarge := range map[int]bool{len(text) - 1: true, len(text): false} {
				_, err := readAll(packed, codec, held, whole)
				if errors.Is(err, ErrTooLarge) != tooLarge {
					t.Errorf("%s with %d of %d bytes: %v", name, held, len(text), err)
				}
			}
		})
		if !found {
			t.Errorf("no frame %s", name)
		}
	}
}

// What we write, we can always read in pieces: no window of ours is larger than the reader takes on
// a frame's word.
func TestOurOwnFramesStreamAtEveryLevel(t *testing.T) {
	long := bytes.Repeat(foreignText(), 80) // 11 MB, beyond every window
	for _, level := range []int{-5, 3, 7, 22} {
		packed, err := Compress(nil, long, Zstd, level)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := readAll(packed, Zstd, 1<<20, whole); err != nil || !bytes.Equal(out, long) {
			t.Errorf("level %d: %d of %d bytes, %v", level, len(out), len(long), err)
		}
	}
}

// Any bytes give the same both ways. A Reader gives what stands before a fault, and takes claims
// beyond what it may hold for too large where Decompress sees that the bytes are not there.
func FuzzReader(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		packed, err := Compress(nil, []byte("hello hello hello"), codec, LevelDefault)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(int8(codec), packed)
	}
	// a header that ends early was taken for no data
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
		got, err := io.ReadAll(io.LimitReader(r, limit+1)) // a bomb goes on
		switch {
		case errors.Is(wantErr, ErrTooLarge): // all together; piece by piece it need not be
		case wantErr == nil:
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d bytes in memory; streamed %d, %v", codec, len(want), len(got), err)
			}
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge):
			t.Fatalf("%s: %v in memory; streamed %d bytes, %v", codec, wantErr, len(got), err)
		}
	})
}
