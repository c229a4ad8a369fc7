package keys

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestSipHash128KnownAnswers(t *testing.T) {
	content, err := os.ReadFile("testdata/siphash128.txt")
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSpace(string(content)), "\n")[1:]
	if len(answers) != 64 {
		t.Fatalf("%d answers, want 64", len(answers))
	}
	var secret [16]byte
	var input [64]byte
	for i := range input {
		input[i] = byte(i)
		if i < len(secret) {
			secret[i] = byte(i)
		}
	}
	hasher := NewHasher(secret)
	for n, want := range answers {
		first, second := hasher.sum128(input[:n])
		sum := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, first),
			second)
		if got := hex.EncodeToString(sum); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
		if got := hasher.Hash(input[:n]); got.High != first ||
			uint64(got.Low) != second&math.MaxUint32 {
			t.Errorf("%d bytes: hash %x is not the first 96 bits of %s", n, got, want)
		}
	}
}

func TestHashDependsOnSecretAndTrailingZeros(t *testing.T) {
	seen := map[Hash]string{}
	for _, secret := range [][16]byte{{}, {1}, {15: 1}} {
		for n := range 40 {
			h, name := NewHasher(secret).Hash(make([]byte, n)), string(rune(n))+string(secret[:])
			if before, known := seen[h]; known {
				t.Errorf("%q and %q have the same hash", before, name)
			}
			seen[h] = name
		}
	}
}

func TestHashDoesNotAllocate(t *testing.T) {
	hasher, key := NewHasher([16]byte{7}), make([]byte, 36)
	if n := testing.AllocsPerRun(100, func() { _ = hasher.Hash(key) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSlicesCoverAllHashesOnce checks that each hash is in exactly one slice. Otherwise the hash's
// entries would be deduplicated twice or not at all.
func TestSlicesCoverAllHashesOnce(t *testing.T) {
	for _, count := range []uint32{1, 2, 3, 7, 128, 255, 256, 1000, 65536, 1<<32 - 1} {
		if first, last := Slice(0, count),
			Slice(count-1, count); first.First != 0 || last.Last != ^uint64(0) {
			t.Errorf("%d slices: %x to %x", count, first.First, last.Last)
		}
		for number := range min(count-1, 70000) {
			a, b := Slice(number, count), Slice(number+1, count)
			if a.Last+1 != b.First || a.First > a.Last {
				t.Fatalf("slice %d of %d: %x, then %x", number, count, a, b)
			}
			if wide, narrow := max(a.Last-a.First, b.Last-b.First),
				min(a.Last-a.First, b.Last-b.First); wide-narrow > 1 {
				t.Fatalf("slices %d and %d of %d: widths %d and %d", number, number+1, count, wide,
					narrow)
			}
		}
	}
	if Slice(0, 1) != AllHashes {
		t.Errorf("one slice: %x", Slice(0, 1))
	}
}

func TestSaltRoundTrip(t *testing.T) {
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var salt Salt
	for i := range salt {
		salt[i] = byte(random.Uint32())
	}
	content := salt.Encode()
	if got, err := DecodeSalt(content); err != nil || got != salt {
		t.Fatalf("seed %d: %x, %v", seed, got, err)
	}
	// A change of any byte must be detected, whether it is in the magic, the version, the secret or
	// the checksum.
	for i := range content {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= 1 << random.IntN(8)
		if _, err := DecodeSalt(damaged); err == nil {
			t.Errorf("seed %d: damage of byte %d is not detected", seed, i)
		}
	}
	for _, other := range [][]byte{nil, content[:len(content)-1], append(content, 0)} {
		if _, err := DecodeSalt(other); err == nil {
			t.Errorf("%d bytes are accepted as a salt", len(other))
		}
	}
	other := salt
	other[3]++
	if salt.ID() == other.ID() {
		t.Error("two salts have the same id")
	}
}

func FuzzDecodeSalt(f *testing.F) {
	f.Add(Salt{1, 2, 3}.Encode())
	f.Add([]byte(saltMagic))
	f.Fuzz(func(t *testing.T, content []byte) {
		if salt, err := DecodeSalt(content); err == nil && !bytes.Equal(salt.Encode(), content) {
			t.Errorf("%x decodes, and encodes differently", content)
		}
	})
}

func BenchmarkHash(b *testing.B) {
	for _, size := range []int{16, 36, 256} {
		b.Run(strings.TrimSpace(hex.EncodeToString([]byte{byte(size >> 8), byte(size)})),
			func(b *testing.B) {
				hasher, key := NewHasher([16]byte{7}), make([]byte, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					key[0] = byte(hasher.Hash(key).High)
				}
			})
	}
}
