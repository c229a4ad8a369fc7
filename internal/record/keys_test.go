package record

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// keyText formats a RecordKey.
func keyText(k RecordKey) string {
	if k.Key == nil {
		return fmt.Sprintf("null %d", k.BodyBytes)
	}
	return fmt.Sprintf("%q %v %d", k.Key, k.Tombstone, k.BodyBytes)
}

func TestKeysIsCalledForEachRecordInOrder(t *testing.T) {
	records := []Record{
		keyed("a", "1", 10), {Key: []byte("b"), Timestamp: 10}, {Value: []byte("v"), Timestamp: 10},
		{Timestamp: 10},
		{Key: []byte{}, Value: []byte{}, Timestamp: 10},
		{Key: []byte("a"), Value: make([]byte, 1000), Timestamp: 10},
	}
	// The number after each key is BodyBytes. Besides key and value, a body contains six bytes:
	// attributes, two deltas, the lengths of key and value, and the number of headers. The length of
	// the 1000-byte value needs one more byte.
	want := []string{`"a" false 8`, `"b" true 7`, "null 7", "null 6", `"" false 6`,
		`"a" false 1008`}
	for codec := compress.None; codec <= compress.Zstd; codec++ {
		// Validate keeps the batch's codec, or recompresses the batch with gzip.
		for _, target := range []compress.Codec{codec, compress.Gzip} {
			var got []string
			rules := Rules{Codec: target, CodecLevel: compress.LevelDefault,
				Keys: func(k RecordKey) { got = append(got, keyText(k)) }}
			if _, err := Validate(clientBatch(t, codec, records...), rules, now); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s to %s: got %v, want %v", codec, target, got, want)
			}
		}
	}
}

func TestKeysIsNotCalledForUnparsableRecords(t *testing.T) {
	b := clientBatch(t, compress.None, keyed("a", "1", 10), keyed("b", "2", 10))
	b[len(b)-1] = 9 // makes the last record's header count invalid
	b.setCRC()
	var calls int
	_, err := Validate(b, Rules{Keys: func(RecordKey) { calls++ }}, now)
	if !errors.Is(err, ErrInvalidRecord) || calls != 1 {
		t.Errorf("%v after %d calls, want an error after one", err, calls)
	}
}

func TestKeysDoesNotAllocatePerRecord(t *testing.T) {
	records := make([]Record, 1000)
	for i := range records {
		records[i] = keyed("key", "value", 10)
	}
	b := clientBatch(t, compress.None, records...)
	var bytes int
	rules := Rules{KeepCodec: true, Keys: func(k RecordKey) { bytes += len(k.Key) + k.BodyBytes }}
	if allocated := testing.AllocsPerRun(20, func() {
		if _, err := Validate(b, rules, now); err != nil {
			t.Fatal(err)
		}
	}); allocated > 5 {
		t.Errorf("%.0f allocations for a batch of 1000 records", allocated)
	}
}
