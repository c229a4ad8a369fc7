package logappend

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

func smallOptions(t *testing.T) Options {
	return Options{
		Codec: compress.Zstd, Level: compress.LevelDefault, BatchBytes: 16 << 10, RecordBytes: 1000,
		Records: 100, Seed: 1,
		Dir: t.TempDir(), Flush: time.Second,
	}
}

func TestRunWithEveryCodec(t *testing.T) {
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		for _, sent := range []compress.Codec{compress.None, codec} {
			opts := smallOptions(t)
			opts.Codec, opts.Sent, opts.Done = codec, sent, new(atomic.Int64)
			result, err := Run(t.Context(), opts)
			if err != nil {
				t.Fatalf("%s sent as %s: %v", codec, sent, err)
			}
			// 100 records need 7 batches of 16 records, and the last batch is filled up.
			if result.Records != 112 || result.Batches != 7 || result.RawBytes < 100_000 {
				t.Errorf("%s: %+v", codec, result)
			}
			if done := opts.Done.Load(); done != opts.Expected() || done != 224 {
				t.Errorf("%s: counted %d records of %d, want 224", codec, done, opts.Expected())
			}
			if shrinks := result.Ratio > 1.5; shrinks != (codec != compress.None) {
				t.Errorf("%s sent as %s: ratio %.2f", codec, sent, result.Ratio)
			}
			if left, err := os.ReadDir(opts.Dir); err != nil || len(left) > 0 {
				t.Errorf("files remain: %v, %v", left, err)
			}
		}
	}
}

func TestRunReturnsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, smallOptions(t)); err == nil ||
		!strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v, want context canceled", err)
	}
}

func TestValidateReturnsAllFaults(t *testing.T) {
	err := Options{Codec: compress.Gzip, Level: 10, BatchBytes: 1000, RecordBytes: 2000}.Validate()
	if err == nil {
		t.Fatal("invalid options were accepted")
	}
	for _, want := range []string{"gzip level 10: must be 1 to 9",
		"record bytes 2000: must be 40 to the batch bytes, 1000", "records 0", "flush 0s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not contain %q", err, want)
		}
	}
}

func TestPrint(t *testing.T) {
	r := Result{Codec: "zstd", Level: "3", Sent: "none", Records: 1000, Batches: 10, RawBytes: 1e6,
		StoredBytes: 250_000, Ratio: 4}
	r.Append.set(2*time.Second, time.Second, &r)
	var text, object bytes.Buffer
	if err := r.Print(&text, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"zstd level 3", "ratio 4.00",
		"append         0.5 MB/s; 1.00 s CPU: 1.0 MB/s per CPU, 1000.000 us per record"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s\ndoes not contain %q", text.String(), want)
		}
	}
	if err := r.Print(&object, true); err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || back != r {
		t.Errorf("%s: %v", object.String(), err)
	}
}
