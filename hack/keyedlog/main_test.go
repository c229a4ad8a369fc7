package main

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// TestOrders checks three rounds over all keys. In the first round, keys must be in ascending
// order. Later rounds must repeat this order (same) or use a different one (random).
func TestOrders(t *testing.T) {
	const keys = 50
	for name, wantSame := range map[string]bool{"same": true, "random": false} {
		next, same := orders[name](rand.New(rand.NewPCG(1, 2)), keys), true
		for round := range 3 {
			seen := map[int]bool{}
			for i := range keys {
				key := next(round*keys + i)
				seen[key] = true
				same = same && key == i
				if round == 0 && key != i {
					t.Errorf("%s: record %d: got key %d, want the number of the record", name, i, key)
				}
			}
			if len(seen) != keys {
				t.Errorf("%s: got %d of %d keys in round %d", name, len(seen), keys, round)
			}
		}
		if same != wantSame {
			t.Errorf("%s: got the same order in every round: %v, want %v", name, same, wantSame)
		}
	}
}

// TestLogIsSealedAndHasSidecars checks that every segment with records is sealed and has a key
// sidecar.
func TestLogIsSealedAndHasSidecars(t *testing.T) {
	o := options{dir: t.TempDir(), records: 1000, keys: 300, size: 512, order: "uniform",
		segmentBytes: 128 << 10, batchBytes: 16 << 10}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := write(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	sidecars, err := filepath.Glob(filepath.Join(o.dir, "t-0", "*.keys"))
	if err != nil || len(sidecars) != result.Segments || result.Segments < 4 {
		t.Errorf("got %d segments and %d sidecars (%v), want at least 4, in equal numbers", result.Segments, len(sidecars), err)
	}
	if result.Records != 1000 || result.Bytes < 1000*512 {
		t.Errorf("got summary %+v, want 1000 records of 512 bytes", result)
	}
}

func TestInvalidOptionsAreRejected(t *testing.T) {
	for name, o := range map[string]options{
		"no directory": {records: 1, keys: 1, size: 100, order: "same", batchBytes: 1000},
		"no record":    {dir: "x", keys: 1, size: 100, order: "same", batchBytes: 1000},
		"order":        {dir: "x", records: 1, keys: 1, size: 100, order: "none", batchBytes: 1000},
		"size":         {dir: "x", records: 1, keys: 1, size: 8, order: "same", batchBytes: 1000},
		"batch":        {dir: "x", records: 1, keys: 1, size: 100, order: "same", batchBytes: 99},
	} {
		if o.validate() == nil {
			t.Errorf("%s: validate returned no error", name)
		}
	}
}
