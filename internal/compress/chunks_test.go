package compress

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestChunksEqualByteSlice appends the same random bytes to a byte slice and to Chunks, using each
// of its methods. Both must have the same contents.
func TestChunksEqualByteSlice(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		chunks := NewChunks()
		var want []byte
		for range 60 {
			p := make([]byte, random.IntN(ChunkBytes/4))
			for i := range p {
				p[i] = byte(random.Uint32())
			}
			switch random.IntN(4) {
			case 0:
				_, _ = chunks.Write(p)
			case 1:
				_, _ = chunks.Write(bytes.Repeat(p, 9)) // spans several chunks
				want = append(want, bytes.Repeat(p, 8)...)
			case 2:
				copy(chunks.Reserve(len(p)), p)
			case 3:
				copy(chunks.room(len(p)+100), p)
				chunks.extend(len(p))
			}
			want = append(want, p...)
		}
		if got := chunks.AppendTo([]byte("head")); !bytes.Equal(got[4:], want) ||
			string(got[:4]) != "head" || chunks.Len() != len(want) {
			t.Fatalf("chunks contain %d bytes, want %d, or the bytes differ", chunks.Len(),
				len(want))
		}
		for i, piece := range chunks.Pieces() {
			if len(piece) == 0 && i < len(chunks.Pieces())-1 {
				t.Error("a piece before the last one is empty")
			}
		}
		chunks.Release()
	}
}

// TestReservedBytesStayInPlace checks that a slice returned by Reserve remains part of the data,
// even after more than a chunk was appended.
func TestReservedBytesStayInPlace(t *testing.T) {
	chunks := NewChunks()
	defer chunks.Release()
	head := chunks.Reserve(5)
	_, _ = chunks.Write(make([]byte, 3*ChunkBytes))
	copy(head, "hello")
	if got := chunks.AppendTo(nil); string(got[:5]) != "hello" || len(got) != 3*ChunkBytes+5 ||
		len(chunks.Pieces()) != 4 {
		t.Errorf("got %d bytes in %d pieces, starting with %q", len(got), len(chunks.Pieces()),
			got[:5])
	}
}

func TestNilChunksAreEmpty(t *testing.T) {
	var none *Chunks
	none.Release()
	if none.Len() != 0 {
		t.Error("nil Chunks have a length above 0")
	}
}

// TestCompressionDoesNotAllocate checks that compression with filled pools needs no buffer between
// the codec and its chunks. The limit allows for a garbage collection, which may empty the pools.
func TestCompressionDoesNotAllocate(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector the pools do not keep their items")
	}
	sample := samples()["long"]
	for codec := None; codec <= Zstd; codec++ {
		allocations := testing.AllocsPerRun(50, func() {
			chunks := NewChunks()
			defer chunks.Release()
			if err := To(chunks, sample, codec, LevelDefault); err != nil {
				t.Fatal(err)
			}
		})
		if allocations > 2 {
			t.Errorf("%s: %v allocations, want at most 2", codec, allocations)
		}
	}
}
