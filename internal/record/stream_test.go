package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"heartwood.dev/heartwood/internal/compress"
)

// streamed returns the records and the error that Stream yields for a batch, whose payload it reads
// through wrap.
func streamed(b Batch, heldMax int, wrap func(io.Reader) io.Reader) (all []Record, err error) {
	header := slices.Clip(b[:HeaderBytes])
	for r, err := range header.Stream(wrap(bytes.NewReader(b[HeaderBytes:])), heldMax) {
		if err != nil {
			return all, err
		}
		all = append(all, clone(*r))
	}
	return all, nil
}

func whole(r io.Reader) io.Reader { return r }

// testBatches returns Kafka's test vectors and a random batch for every codec, with some records
// larger than the initial buffers.
func testBatches(t testing.TB) map[string]Batch {
	all := vectors(t)
	random := rand.New(rand.NewPCG(1, 2))
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		records := make([]Record, 400)
		for i := range records {
			records[i] = randomRecord(random, int64(i))
			if i%90 == 7 {
				records[i].Value = make([]byte, random.IntN(300_000))
			}
		}
		all["random "+codec.String()] = clientBatch(t, codec, records...)
	}
	return all
}

func TestStreamEqualsRecords(t *testing.T) {
	for name, b := range testBatches(t) {
		want := texts(collect(t, b))
		for kind, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": whole, "byte by byte": iotest.OneByteReader,
			"data together with io.EOF": iotest.DataErrReader,
		} {
			if got, err := streamed(b, 1<<20, wrap); err != nil || !slices.Equal(texts(got), want) {
				t.Errorf("%s, %s: %d records of %d, %v", name, kind, len(got), len(want), err)
			}
		}
	}
}

// counted is a reader that counts the bytes that it has returned.
type counted struct {
	io.Reader
	bytes int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += n
	return n, err
}

func TestStreamStopsReadingAfterABreak(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	records := make([]Record, 200)
	for i := range records {
		records[i].Value = make([]byte, 50_000)
		for index := range records[i].Value {
			records[i].Value[index] = byte(random.Uint32()) // incompressible
		}
	}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := clientBatch(t, codec, records...)
		payload := &counted{Reader: bytes.NewReader(b[HeaderBytes:])}
		for r, err := range b[:HeaderBytes].Stream(payload, 1<<20) {
			if err != nil {
				t.Fatal(codec, err)
			}
			if r.Offset == 1 {
				break
			}
		}
		if payload.bytes > 1<<20 {
			t.Errorf("%s: read %d of %d bytes for two records of 50 KB", codec,
				payload.bytes, len(b))
		}
	}
}

func TestStreamBuffersOneRecord(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		small, large := make([]Record, 64), make([]Record, 3)
		for i := range small {
			small[i].Value = make([]byte, 30_000)
		}
		large[1].Value = make([]byte, 200_000)
		// The records exceed the limit together, but not individually.
		if got, err := streamed(clientBatch(t, codec, small...), 100_000, whole); err != nil ||
			len(got) != len(small) {
			t.Errorf("%s: %d records, %v", codec, len(got), err)
		}
		got, err := streamed(clientBatch(t, codec, large...), 100_000, whole)
		if !errors.Is(err, compress.ErrTooLarge) || errors.Is(err, ErrCorrupt) || len(got) != 1 {
			t.Errorf("%s: %d records, then %v; want one, then ErrTooLarge", codec, len(got), err)
		}
	}
}

func TestStreamDistinguishesReadErrorsFromCorruptData(t *testing.T) {
	readErr := errors.New("disk error")
	for name, b := range testBatches(t) {
		payload := b[HeaderBytes:]
		if len(payload) == 0 {
			continue
		}
		for _, index := range []int{0, 1, len(payload) / 2, len(payload) - 1} {
			failing := func(io.Reader) io.Reader {
				return io.MultiReader(bytes.NewReader(payload[:index]), iotest.ErrReader(readErr))
			}
			// The error must be returned, even though all records precede it.
			if _, err := streamed(b, 1<<20, failing); !errors.Is(err, readErr) ||
				errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: read error at byte %d of %d: %v", name, index, len(payload), err)
			}
			truncated := func(r io.Reader) io.Reader { return io.LimitReader(r, int64(index)) }
			if _, err := streamed(b, 1<<20, truncated); b.Count() > 0 &&
				!errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: payload truncated at byte %d of %d: %v", name, index, len(payload), err)
			}
		}
	}
}

func TestStreamOfAnEmptyBatchYieldsNothing(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		b := slices.Clone(clientBatch(t, compress.None, keyed("a", "1", 1))[:HeaderBytes])
		b.setAttributes(int16(codec))
		b[countAt+3] = 0
		if got, err := streamed(b, 1<<20, whole); err != nil || len(got) != 0 {
			t.Errorf("%s: %d records, %v", codec, len(got), err)
		}
		if got, err := streamed(append(b, 0xff), 1<<20, whole); !errors.Is(err, ErrCorrupt) ||
			len(got) != 0 {
			t.Errorf("%s with a trailing byte: %d records, %v", codec, len(got), err)
		}
	}
}

// TestStreamReadsFramesWithLargeWindows is a regression test. A stream returned ErrTooLarge for a
// zstd frame after the first if its window exceeded 8 MiB.
func TestStreamReadsFramesWithLargeWindows(t *testing.T) {
	const windowAt, windowLog = 5, 24
	b := clientBatch(t, compress.None, keyed("a", strings.Repeat("1", 100_000), 1),
		keyed("b", strings.Repeat("2", 100_000), 2), keyed("c", "3", 3))
	want, payload := texts(collect(t, b)), b[HeaderBytes:]
	packed := slices.Clone(b[:HeaderBytes])
	for _, piece := range [][]byte{payload[:150_000], payload[150_000:]} {
		frame, err := compress.Compress(nil, piece, compress.Zstd, compress.LevelDefault)
		if err != nil {
			t.Fatal(err)
		}
		if len(packed) > HeaderBytes {
			frame[windowAt] = (windowLog - 10) << 3 // a larger window than necessary, which is valid
		}
		packed = append(packed, frame...)
	}
	packed.setAttributes(int16(compress.Zstd))
	if got, err := streamed(packed, 1<<20, whole); err != nil || !slices.Equal(texts(got), want) {
		t.Errorf("got %d of %d records, %v", len(got), len(want), err)
	}
}

// kind returns the kind of err, as far as callers of Stream distinguish errors.
func kind(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, compress.ErrTooLarge):
		return "too large"
	case errors.Is(err, ErrCorrupt):
		return "corrupt"
	}
	return fmt.Sprint("unknown: ", err)
}

// FuzzStream checks that Stream and Records return the same records and the same kind of error for
// any bytes. There are two exceptions. Stream returns the records that precede an error. If a
// length field is above Stream's limit, Stream returns ErrTooLarge. Records returns ErrCorrupt,
// because it has all bytes and detects that some are missing.
func FuzzStream(f *testing.F) {
	for _, b := range vectors(f) {
		if len(b) < 4<<10 {
			f.Add([]byte(b))
		}
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		if len(buf) < HeaderBytes {
			return
		}
		b := Batch(buf)
		const limit = 1 << 20
		var want []Record
		wantErr := b.Records(limit, func(r *Record) error {
			want = append(want, clone(*r))
			return nil
		})
		got, err := streamed(b, limit, whole)
		wantKind, gotKind := kind(wantErr), kind(err)
		switch {
		case wantKind == "too large":
			// The batch exceeds the limit, but its records individually may not, and the bytes after the
			// limit may be corrupt.
			if gotKind == "none" && len(got) != int(b.Count()) {
				t.Fatalf("%d records of %d", len(got), b.Count())
			}
			return
		case wantKind == "corrupt" && gotKind == "too large":
		case wantKind != gotKind:
			t.Fatalf("in memory %v, streamed %v", wantErr, err)
		}
		if wantKind == "none" && len(want) != len(got) || len(want) > len(got) {
			t.Fatalf("%d records in memory, %d streamed", len(want), len(got))
		}
		if !slices.Equal(texts(want), texts(got[:len(want)])) {
			t.Fatalf("in memory %v\nstreamed %v", texts(want), texts(got))
		}
	})
}
