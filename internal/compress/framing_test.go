package compress

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// TestXXHash32KnownAnswers uses xxHash's own test vectors for the first three inputs.
func TestXXHash32KnownAnswers(t *testing.T) {
	for input, want := range map[string]uint32{
		"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff,
		"Nobody inspects the spammish repetition": 0xe2293b2f,
	} {
		if got := xxHash32([]byte(input)); got != want {
			t.Errorf("xxHash32(%q) = %#x, want %#x", input, got, want)
		}
	}
}

func TestLZ4FramingIsThatOfKafka(t *testing.T) {
	packed, err := Compress(nil, bytes.Repeat([]byte("ab"), 50_000), LZ4, LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(packed[:7]); got != "04224d18604082" {
		t.Errorf("got frame header %s, want 04224d18604082", got)
	}
	if end := binary.LittleEndian.Uint32(packed[len(packed)-4:]); end != 0 {
		t.Errorf("EndMark is %#x, want 0", end)
	}
	out, err := io.ReadAll(lz4.NewReader(bytes.NewReader(packed)))
	if err != nil || len(out) != 100_000 {
		t.Errorf("the lz4 library decodes %d bytes, %v; want 100,000", len(out), err)
	}
}

func TestLZ4FramesOfOtherClientsAreDecoded(t *testing.T) {
	sample := samples()["long"]
	for name, options := range map[string][]lz4.Option{
		"4M blocks":        {lz4.BlockSizeOption(lz4.Block4Mb)},
		"1M blocks":        {lz4.BlockSizeOption(lz4.Block1Mb)},
		"content size":     {lz4.SizeOption(uint64(len(sample)))},
		"block checksums":  {lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block64Kb)},
		"content checksum": {lz4.ChecksumOption(true)},
	} {
		var packed bytes.Buffer
		w := lz4.NewWriter(&packed)
		if err := errors.Join(w.Apply(options...), discardCount(w.Write(sample)),
			w.Close()); err != nil {
			t.Fatal(name, err)
		}
		out, err := Decompress(nil, packed.Bytes(), LZ4, len(sample))
		if err != nil || !bytes.Equal(out, sample) {
			t.Errorf("%s: got %d bytes, %v; want the sample", name, len(out), err)
		}
	}
}

func TestLZ4FramesThatKafkaRejectsAreRejected(t *testing.T) {
	withHeader := func(flags, block byte, fix bool) []byte {
		frame := []byte{0x04, 0x22, 0x4D, 0x18, flags, block, 0, 0, 0, 0, 0}
		if fix {
			frame[6] = byte(xxHash32(frame[4:6]) >> 8)
		}
		return frame
	}
	if _, err := Decompress(nil, withHeader(0x60, 0x40, true), LZ4, 10); err != nil {
		t.Fatalf("the valid frame is rejected: %v", err)
	}
	for name, frame := range map[string][]byte{
		"version 2":           withHeader(0xa0, 0x40, true),
		"dependent blocks":    withHeader(0x40, 0x40, true),
		"dictionary":          withHeader(0x61, 0x40, true),
		"reserved flag":       withHeader(0x62, 0x40, true),
		"reserved block bits": withHeader(0x60, 0x41, true),
		"block size 3":        withHeader(0x60, 0x30, true),
		"bad header checksum": withHeader(0x60, 0x40, false),
		"block above maximum": append(withHeader(0x60, 0x40, true)[:7],
			append([]byte{1, 0, 1, 0}, make([]byte, 65537)...)...),
		"size without content": withHeader(0x68, 0x40, true),
	} {
		if _, err := Decompress(nil, frame, LZ4, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestLZ4BlockChecksumIsVerified(t *testing.T) {
	var packed bytes.Buffer
	w := lz4.NewWriter(&packed)
	if err := errors.Join(w.Apply(lz4.BlockChecksumOption(true)),
		discardCount(w.Write(samples()["noise"])), w.Close()); err != nil {
		t.Fatal(err)
	}
	// Change a byte inside a raw block, where only the checksum can detect the change.
	packed.Bytes()[1000] ^= 1
	if _, err := Decompress(nil, packed.Bytes(), LZ4, 1<<20); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged block: %v, want ErrCorrupt", err)
	}
}

func TestSnappyUsesXerialFraming(t *testing.T) {
	packed, err := Compress(nil, make([]byte, 70<<10), Snappy, LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(packed[:16]); got != "82534e41505059000000000100000001" {
		t.Errorf("header is %s", got)
	}
	var sizes []int
	for rest := packed[16:]; len(rest) > 0; {
		size := binary.BigEndian.Uint32(rest)
		decoded, err := snappy.DecodedLen(rest[4 : 4+size])
		if err != nil {
			t.Fatal(err)
		}
		sizes, rest = append(sizes, decoded), rest[4+size:]
	}
	if len(sizes) != 3 || sizes[0] != 32<<10 || sizes[2] != 6<<10 {
		t.Errorf("block sizes are %v, want 32 KiB each and a smaller last one", sizes)
	}
}

func TestSnappyRawAndConcatenatedStreamsAreDecoded(t *testing.T) {
	sample := samples()["long"]
	out, err := Decompress(nil, snappy.Encode(nil, sample), Snappy, len(sample))
	if err != nil || !bytes.Equal(out, sample) {
		t.Errorf("raw block: %v", err)
	}
	packed, err := Compress(nil, sample, Snappy, LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	out, err = Decompress(nil, append(packed, packed...), Snappy, 2*len(sample))
	if err != nil || len(out) != 2*len(sample) {
		t.Errorf("two streams: got %d bytes, %v", len(out), err)
	}
}

func TestGzipMembersAreConcatenated(t *testing.T) { // see RFC 1952, section 2.2
	first, _ := Compress(nil, []byte("one "), Gzip, 1)
	both, err := Compress(first, []byte("two"), Gzip, 9)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := Decompress(nil, both, Gzip, 100); err != nil || string(out) != "one two" {
		t.Errorf("two members decode to %q, %v", out, err)
	}
}

func TestZstdFrameHasNoContentSizeAndSmallWindow(t *testing.T) {
	for _, size := range []int{1, 300, 5000, 60_000, 1 << 20, 3 << 20} {
		packed, err := Compress(nil, bytes.Repeat([]byte{'x'}, size), Zstd, LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		var header zstd.Header
		if err := header.Decode(packed); err != nil {
			t.Fatal(err)
		}
		if header.HasFCS || header.SingleSegment || header.HasCheckSum {
			t.Errorf("%d bytes: header is %+v", size, header)
		}
		if header.WindowSize > 8<<20 || size < 64<<10 && header.WindowSize > 64<<10 {
			t.Errorf("%d bytes: window is %d", size, header.WindowSize)
		}
	}
}

func TestZstdConcatenatedSkippableAndSizedFramesAreDecoded(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	packed := encoder.EncodeAll(bytes.Repeat([]byte("ab"), 1000), nil)
	packed = append(packed, skippable...)
	packed = encoder.EncodeAll([]byte("end"), packed)
	out, err := Decompress(nil, packed, Zstd, 2003)
	if err != nil || len(out) != 2003 || !bytes.HasSuffix(out, []byte("abend")) {
		t.Errorf("got %d bytes, %v; want 2,003", len(out), err)
	}
}

func TestZstdWindowAbove128MiBIsRejected(t *testing.T) {
	// The frame declares a window of 2^28 bytes and contains one empty raw block.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 18 << 3, 0x01, 0x00, 0x00}
	if _, err := Decompress(nil, frame, Zstd, 1<<30); !errors.Is(err, ErrCorrupt) {
		t.Errorf("window of 256 MiB: %v, want ErrCorrupt", err)
	}
	frame[5] = 17 << 3
	if _, err := Decompress(nil, frame, Zstd, 1<<30); err != nil {
		t.Errorf("window of 128 MiB: %v", err)
	}
}

func discardCount(_ int, err error) error { return err }
