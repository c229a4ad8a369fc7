package compress

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
)

func TestSizeEqualsTheLengthOfTheDecompressedData(t *testing.T) {
	for name, sample := range samples() {
		for codec := None; codec <= Zstd; codec++ {
			packed, err := Compress(nil, sample, codec, LevelDefault)
			if err != nil {
				t.Fatal(err)
			}
			if size, err := Size(packed, codec, len(sample)); err != nil || size != len(sample) {
				t.Errorf("%s of %s: size %d, %v; want %d", codec, name, size, err, len(sample))
			}
			if _, err := Size(packed, codec, len(sample)-1); !errors.Is(err, ErrTooLarge) &&
				len(sample) > 0 {
				t.Errorf("%s of %s: error %v one byte below its size", codec, name, err)
			}
		}
	}
}

func TestSizeAcceptsTheForeignFramesThatDecompressAccepts(t *testing.T) {
	want := len(foreignText())
	foreignFrames(t, func(name string, codec Codec, packed []byte) {
		size, err := Size(packed, codec, 1<<20)
		if strings.HasPrefix(name, "refused-") {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: size %d, %v", name, size, err)
			}
			return
		}
		if err != nil || size != want {
			t.Errorf("%s: size %d, %v; want %d", name, size, err, want)
		}
	})
}

// zstdZeros returns a zstd frame that decompresses to the given number of blocks of 128 KiB of
// zeros. The blocks have the type RLE (RFC 8878, 3.1.1.2.2). The frame declares a window of
// 2^windowLog bytes.
func zstdZeros(blocks, windowLog int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(windowLog-10) << 3}
	for i := range blocks {
		header := uint32(zstdBlockBytes<<3 | 1<<1)
		if i == blocks-1 {
			header |= 1
		}
		frame = append(frame, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return frame
}

func TestSizeHoldsAPieceOfTheData(t *testing.T) {
	const size, limit = 64 << 20, 32 << 20
	zeros := make([]byte, size)
	packed := map[string][]byte{"zstd": zstdZeros(size/zstdBlockBytes, 21)}
	codecs := map[string]Codec{"zstd": Zstd, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4}
	for name, codec := range codecs {
		if packed[name] == nil {
			var err error
			if packed[name], err = Compress(nil, zeros, codec, LevelDefault); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, codec := range codecs {
		allocated := allocatedBy(func() {
			if _, err := Size(packed[name], codec, limit); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: error %v beyond the limit", name, err)
			}
			if n, err := Size(packed[name], codec, size); err != nil || n != size {
				t.Errorf("%s: size %d, %v; want %d", name, n, err, size)
			}
		})
		// The largest allocations are zstd's window of 2 MiB, and LZ4 and snappy blocks of at most 64
		// KiB.
		if allocated > 12<<20 {
			t.Errorf("%s: %d bytes were allocated for the size of %d", name, allocated, size)
		}
	}
}

func TestSizeHoldsTheWindowOfAFrame(t *testing.T) {
	const limit, windowLog = 128 << 20, 25
	packed := zstdZeros(4<<30/zstdBlockBytes, windowLog)
	if len(packed) > 1<<20 {
		t.Fatalf("the frame has %d bytes", len(packed))
	}
	// The frame with the large window is first the only frame, and then the second frame.
	for _, src := range [][]byte{packed, append(zstdZeros(1, 20), packed...)} {
		allocated := allocatedBy(func() {
			if _, err := Size(src, Zstd, limit); !errors.Is(err, ErrTooLarge) {
				t.Errorf("error %v beyond the limit", err)
			}
		})
		if allocated > 1<<windowLog+6<<20 {
			t.Errorf("%d bytes were allocated for a window of %d", allocated, 1<<windowLog)
		}
	}
	short := append(zstdZeros(1, 20), zstdZeros(3, 27)...)
	out, err := Decompress(nil, short, Zstd, limit)
	if err != nil || !bytes.Equal(out, make([]byte, 4*zstdBlockBytes)) {
		t.Errorf("a short frame: %d bytes, %v", len(out), err)
	}
	if size, err := Size(short, Zstd, limit); err != nil || size != len(out) {
		t.Errorf("a short frame: size %d, %v; want %d", size, err, len(out))
	}
}

// allocatedBy returns how many bytes f allocates. f never holds more memory than that.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
