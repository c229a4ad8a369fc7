package record

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
)

// librdkafkaNow is the constant NOW of testdata/librdkafka/make.py, in ms.
const librdkafkaNow = 1_700_000_000_000

// librdkafkaRecords returns the records of a test vector. The function records in make.py creates
// the same records.
func librdkafkaRecords(name string) []Record {
	ticket := func(i int) []byte {
		return fmt.Appendf(nil, `{"id":%d,"subject":"ticket %d","status":"open"}`, i, i*31%17)
	}
	headers := []Header{
		{Key: []byte("b"), Value: []byte("v")}, {Key: []byte("a"), Value: []byte{}},
		{Key: []byte("b")}, {Key: []byte("ü世"), Value: []byte("v")},
	}
	var all []Record
	switch name {
	case "tickets":
		for i := range 30 {
			all = append(all, Record{Key: fmt.Append(nil, "ticket-", i), Value: ticket(i),
				Timestamp: librdkafkaNow + 7*int64(i)})
		}
	case "large":
		for i := range 300 {
			all = append(all, Record{Key: fmt.Append(nil, "k", i),
				Value: bytes.Repeat([]byte("x"), 500), Timestamp: librdkafkaNow + int64(i)})
		}
	case "idempotent":
		for i := range 3 {
			all = append(all, Record{Key: fmt.Append(nil, "k", i), Value: ticket(i),
				Timestamp: librdkafkaNow})
		}
	case "odd":
		all = []Record{
			{Value: []byte("v"), Timestamp: librdkafkaNow},
			{Key: []byte("k"), Timestamp: librdkafkaNow - 100_000, Headers: headers},
			{Key: []byte{}, Value: []byte{}, Timestamp: librdkafkaNow + 5, Headers: headers},
			{Timestamp: librdkafkaNow},
		}
	}
	for i := range all {
		all[i].Offset = int64(i)
	}
	return all
}

// TestBatchesOfLibrdkafkaAreValid checks that batches sent by librdkafka's producer are readable
// and valid, and are stored unchanged.
func TestBatchesOfLibrdkafkaAreValid(t *testing.T) {
	paths, err := filepath.Glob("testdata/librdkafka/*.bin")
	if err != nil || len(paths) != 19 {
		t.Fatalf("%d vectors, %v", len(paths), err)
	}
	compressed := map[compress.Codec]int{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, rest, err := Next(raw)
		if err != nil || len(rest) > 0 || b.CheckCRC() != nil {
			t.Fatalf("%s: %v, %d bytes left, %v", path, err, len(rest), b.CheckCRC())
		}
		name, codec, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".bin"), "-")
		// If compression does not shrink the data, librdkafka sends them uncompressed.
		if got := b.Codec().String(); got != codec && got != "none" {
			t.Errorf("%s has codec %s", path, got)
		}
		compressed[b.Codec()]++
		want := texts(librdkafkaRecords(name))
		if got := texts(collect(t, b)); !slices.Equal(got, want) {
			t.Errorf("%s:\n%v\nwant %v", path, got, want)
		}
		if streamed, err := streamed(b, 1<<20, whole); err != nil ||
			!slices.Equal(texts(streamed), want) {
			t.Errorf("%s, streamed: %d records, %v", path, len(streamed), err)
		}
		if idempotent := b.ProducerID() >= 0; idempotent != (name == "idempotent") || idempotent &&
			b.BaseSequence() != 0 {
			t.Errorf("%s: producer %d, sequence %d", path, b.ProducerID(), b.BaseSequence())
		}
		valid, err := Validate(slices.Clone(b),
			Rules{KeepCodec: true, TimestampAfterMax: time.Hour}, time.UnixMilli(librdkafkaNow))
		if err != nil || !bytes.Equal(valid.Batch, b) {
			t.Errorf("%s is not stored as sent: %v", path, err)
		}
	}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		if compressed[codec] < 2 {
			t.Errorf("only %d vectors with codec %s", compressed[codec], codec)
		}
	}
}
