package keys

import (
	"encoding/binary"
	"math/bits"
)

// Hash stands for a key: two keys are taken for one when their hashes are equal. It is 96 bits of
// SipHash-128 with the partition's salt. With 10^8 keys in each of 10^4 partitions 6*10^-10 false
// pairs are to be expected, and nobody can look for one without the salt (reference F5). Hashes are
// ordered by High, then Low.
type Hash struct {
	High uint64 // slices are ranges of it
	Low  uint32
}

// Less tells whether h stands before other in a sidecar.
func (h Hash) Less(other Hash) bool {
	return h.High < other.High || h.High == other.High && h.Low < other.Low
}

// Hasher hashes keys. It is a value without state, so it may be used anywhere at once.
type Hasher struct{ k0, k1 uint64 }

// NewHasher takes the secret as two little-endian words, as SipHash's reference code does.
func NewHasher(secret [16]byte) Hasher {
	return Hasher{binary.LittleEndian.Uint64(secret[:]), binary.LittleEndian.Uint64(secret[8:])}
}

// Hash returns the hash of a key; an empty key has one. A null key has none: it is not to be asked
// for.
func (h Hasher) Hash(key []byte) Hash {
	high, low := h.sum128(key)
	return Hash{High: high, Low: uint32(low)}
}

// sum128 is SipHash-2-4 with 128 bits of output, as two little-endian words. The length goes into
// the last word, so that keys which differ in trailing zeros only do not meet.
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

// start returns the state that no data has been mixed into. The constants are SipHash's own; 0xee
// belongs to its variant of 128 bits.
func (h Hasher) start() sipState {
	return sipState{
		h.k0 ^ 0x736f6d6570736575, h.k1 ^ 0x646f72616e646f6d ^ 0xee,
		h.k0 ^ 0x6c7967656e657261, h.k1 ^ 0x7465646279746573,
	}
}

// sipState is SipHash's four words, mixed with the secret at first. Its methods keep them in local
// variables while they work, or the compiler would write each step to memory.
type sipState struct{ v0, v1, v2, v3 uint64 }

// absorb takes in whole words of data, little endian: two rounds each, the 2 of 2-4.
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

// absorbWord takes in one word.
func (s *sipState) absorbWord(word uint64) {
	v0, v1, v2, v3 := s.v0, s.v1, s.v2, s.v3^word
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	s.v0, s.v1, s.v2, s.v3 = v0^word, v1, v2, v3
}

// finish gives the 128 bits and leaves the state as it was: four rounds for each half, the 4 of
// 2-4. 0xee and 0xdd belong to the variant of 128 bits.
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

// round is SipRound: additions, rotations and exclusive ors only, so its time does not depend on
// the data. It is inlined.
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
