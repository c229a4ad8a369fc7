package keys

import (
	"encoding/binary"
	"math/bits"
)

// Hash represents a key: the cleaner treats two keys with equal hashes as one key. A hash consists
// of 96 bits of SipHash-128 with the partition's salt. With 10^8 keys in each of 10^4 partitions,
// the expected number of colliding pairs is 6*10^-10. A collision cannot be constructed without the
// salt (F5). Hashes are ordered by High, then by Low.
type Hash struct {
	High uint64 // a hash slice is a range of High
	Low  uint32
}

// Less reports whether h precedes other in a sidecar.
func (h Hash) Less(other Hash) bool {
	return h.High < other.High || h.High == other.High && h.Low < other.Low
}

// Hasher hashes keys. It has no state, so it may be used concurrently.
type Hasher struct{ k0, k1 uint64 }

// NewHasher returns a hasher with the given secret. The secret is read as two little-endian words,
// as in SipHash's reference code.
func NewHasher(secret [16]byte) Hasher {
	return Hasher{binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])}
}

// Hash returns the hash of a key, which may be empty. A null key has no hash.
func (h Hasher) Hash(key []byte) Hash {
	high, low := h.sum128(key)
	return Hash{High: high, Low: uint32(low)}
}

// sum128 returns the SipHash-2-4 of the data with 128 bits of output, as two little-endian words.
// The last word of the input contains the length. Keys that differ only in trailing zeros therefore
// have different hashes. It is implemented here and not taken from a library: it is part of the
// file format and of the append path, so neither its values nor its speed may change with a
// dependency.
func (h Hasher) sum128(data []byte) (first, second uint64) {
	s := h.start()
	last := uint64(len(data)) << 56
	words := len(data) / 8
	s.absorb(data[:8*words])
	for i, b := range data[8*words:] {
		last |= uint64(b) << (8 * i)
	}
	s.absorbWord(last)
	return s.finish()
}

// start returns the initial state. SipHash defines the constants; 0xee is specific to the variant
// with 128 bits.
func (h Hasher) start() sipState {
	return sipState{
		h.k0 ^ 0x736f6d6570736575, h.k1 ^ 0x646f72616e646f6d ^ 0xee,
		h.k0 ^ 0x6c7967656e657261, h.k1 ^ 0x7465646279746573,
	}
}

// sipState is the state of SipHash: four words. The methods copy the words to local variables,
// because otherwise the compiler would write each step to memory.
type sipState struct{ v0, v1, v2, v3 uint64 }

// absorb mixes the little-endian words of data into the state, with two rounds for each word: the 2
// in SipHash-2-4.
func (s *sipState) absorb(data []byte) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3
	for ; len(data) >= 8; data = data[8:] {
		word := binary.LittleEndian.Uint64(data)
		v3 ^= word
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= word
	}
	s.v0, s.v1, s.v2, s.v3 = v0, v1, v2, v3
}

func (s *sipState) absorbWord(word uint64) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3^word
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	s.v0, s.v1, s.v2, s.v3 = v0^word, v1, v2, v3
}

// finish returns the hash of 128 bits. It executes four rounds for each half: the 4 in SipHash-2-4.
// It does not change the state. The constants 0xee and 0xdd are specific to the variant with 128
// bits.
func (s *sipState) finish() (first, second uint64) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2^0xee, s.v3
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	first = v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	return first, v0 ^ v1 ^ v2 ^ v3
}

// round is SipHash's function SipRound. It consists only of additions, rotations and exclusive ors,
// so its time does not depend on the data. The compiler inlines it.
func round(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v2 += v1
	v0 = bits.RotateLeft64(v0, 32) + v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
