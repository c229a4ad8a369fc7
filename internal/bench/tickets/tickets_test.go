package tickets

import (
	"bytes"
	"encoding/json"
	"testing"

	"heartwood.dev/heartwood/internal/compress"
)

// TestTicketsAreJSONOfTheRequestedSize checks that the value of every size is a JSON object.
func TestTicketsAreJSONOfTheRequestedSize(t *testing.T) {
	sizes := []int{5000}
	for size := SizeMin; size <= 1000; size++ {
		sizes = append(sizes, size)
	}
	for _, size := range sizes {
		stream := New(uint64(size))
		for i := range 20 {
			key, value, position := stream.Next(size)
			if len(key)+len(value) != size || position <= 0 {
				t.Fatalf("%d bytes of key and %d of value at %d, want %d", len(key), len(value), position,
					size)
			}
			if !json.Valid(value) || value[0] != '{' {
				t.Fatalf("record %d of %d bytes is not a JSON object: %s", i, size, value)
			}
		}
	}
}

func TestSeedDeterminesTheTickets(t *testing.T) {
	a, b, c := New(7), New(7), New(8)
	same, other := true, false
	for range 50 {
		_, av, _ := a.Next(1000)
		_, bv, _ := b.Next(1000)
		_, cv, _ := c.Next(1000)
		same, other = same && bytes.Equal(av, bv), other || !bytes.Equal(av, cv)
	}
	if !same || !other {
		t.Errorf("the same seed gives the same tickets: %t; another seed gives others: %t", same,
			other)
	}
}

// TestTicketsCompressLikeRealOnes checks that zstd compresses a megabyte of tickets about 4:1. The
// project's performance goals assume this ratio.
func TestTicketsCompressLikeRealOnes(t *testing.T) {
	stream := New(1)
	var all []byte
	for len(all) < 1<<20 {
		_, value, _ := stream.Next(5000)
		all = append(all, value...)
	}
	packed, err := compress.Compress(nil, all, compress.Zstd, compress.LevelDefault)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := float64(len(all)) / float64(len(packed)); ratio < 3.3 || ratio > 4.7 {
		t.Errorf("compression ratio %.2f, want 3.3 to 4.7", ratio)
	}
}
