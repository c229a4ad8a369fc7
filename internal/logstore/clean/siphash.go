package clean

import (
	"encoding/binary"
	"math/bits"
)

// keyHash stands for a key: two keys are taken to be equal when their hashes are.
type keyHash [2]uint64

// hasher is SipHash-2-4 with 128 bits of output and a secret key. A hash without a secret would let a producer make two keys
// that look alike, and so delete a record that is not its own (reference F5).
type hasher struct{ k0, k1 uint64 }

// newHasher takes the key as two little-endian words, as SipHash's reference code does.
func newHasher(key [16]byte) hasher {
	return hasher{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

// hash returns the key's hash. The constants are SipHash's own; 0xee and 0xdd belong to its variant of 128 bits. The length
// goes into the last word, so that keys which differ in trailing zeros only do not meet.
func (h hasher) hash(data []byte) keyHash {
	s := sipState{
		h.k0 ^ 0x736f6d6570736575, h.k1 ^ 0x646f72616e646f6d ^ 0xee,
		h.k0 ^ 0x6c7967656e657261, h.k1 ^ 0x7465646279746573,
	}
	last := uint64(len(data)) << 56
	for ; len(data) >= 8; data = data[8:] {
		s.absorb(binary.LittleEndian.Uint64(data))
	}
	for i, b := range data {
		last |= uint64(b) << (8 * i)
	}
	s.absorb(last)
	s.v2 ^= 0xee
	first := s.squeeze()
	s.v1 ^= 0xdd
	return keyHash{first, s.squeeze()}
}

// sipState is SipHash's four words, mixed with the key at first.
type sipState struct{ v0, v1, v2, v3 uint64 }

// absorb takes in one word of data: two rounds, the 2 of 2-4.
func (s *sipState) absorb(word uint64) {
	s.v3 ^= word
	s.round()
	s.round()
	s.v0 ^= word
}

// squeeze gives 64 bits of the result: four rounds, the 4 of 2-4.
func (s *sipState) squeeze() uint64 {
	for range 4 {
		s.round()
	}
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}

// round is SipRound: additions, rotations and exclusive ors only, so its time does not depend on the data.
func (s *sipState) round() {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
}
