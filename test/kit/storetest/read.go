package storetest

import (
	"fmt"
	"io"
	"testing"

	"heartwood.dev/heartwood/internal/record"
)

// Batches returns the batches in a range of a data file. The test fails if a batch is incomplete or
// has a wrong checksum. If length is 0, file can be nil.
func Batches(t testing.TB, file io.ReaderAt, position int64, length int) []record.Batch {
	t.Helper()
	if length == 0 {
		return nil
	}
	content := make([]byte, length)
	if _, err := file.ReadAt(content, position); err != nil {
		t.Fatal(err)
	}
	return Split(t, content)
}

// Split returns the batches in the content of a data file. The test fails if a batch is incomplete
// or has a wrong checksum.
func Split(t testing.TB, content []byte) (batches []record.Batch) {
	t.Helper()
	for len(content) > 0 {
		b, rest, err := record.Next(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.CheckCRC(); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
		content = rest
	}
	return batches
}

// ReadKeys reads a log's records from an offset up to the log end, like a consumer. It returns
// "offset=key" for each record. The function read returns the batches from an offset on.
func ReadKeys(t testing.TB, offset, logEnd int64,
	read func(offset int64) ([]record.Batch, error)) []string {
	t.Helper()
	keys := []string{}
	for offset < logEnd {
		batches, err := read(offset)
		if err != nil {
			t.Fatalf("read at %d: %v", offset, err)
		}
		if len(batches) == 0 {
			t.Fatalf("read at %d returned no batch; the log ends at %d", offset, logEnd)
		}
		for _, b := range batches {
			err := b.Records(1<<20, func(r *record.Record) error {
				if r.Offset >= offset {
					keys = append(keys, fmt.Sprintf("%d=%s", r.Offset, r.Key))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if b.NextOffset() <= offset {
				t.Fatalf("read at %d returned a batch that ends at %d", offset, b.NextOffset())
			}
			offset = b.NextOffset()
		}
	}
	return keys
}
