package compress

import (
	"encoding/binary"
	"math/bits"
)

// These are the primes of xxHash32.
const (
	xxPrime1 uint32 = 2654435761
	xxPrime2 uint32 = 2246822519
	xxPrime3 uint32 = 3266489917
	xxPrime4 uint32 = 668265263
	xxPrime5 uint32 = 374761393
)

// xxHash32 returns the xxHash32 of data with seed 0, which LZ4 frames use as checksum. The lz4
// library does not export its implementation, and forty lines are not worth another dependency.
func xxHash32(data []byte) uint32 {
	// Input of less than 16 bytes is not divided into lanes. Its hash starts with a prime instead.
	size, hash := uint32(len(data)), xxPrime5
	if len(data) >= 16 {
		lanes := [4]uint32{xxPrime1, xxPrime2, 0, 0}
		lanes[0] += xxPrime2
		lanes[3] -= xxPrime1
		for ; len(data) >= 16; data = data[16:] {
			for i := range lanes {
				lanes[i] += binary.LittleEndian.Uint32(data[4*i:]) * xxPrime2
				lanes[i] = bits.RotateLeft32(lanes[i], 13) * xxPrime1
			}
		}
		hash = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
			bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	}
	hash += size
	for ; len(data) >= 4; data = data[4:] {
		hash += binary.LittleEndian.Uint32(data) * xxPrime3
		hash = bits.RotateLeft32(hash, 17) * xxPrime4
	}
	for _, b := range data {
		hash += uint32(b) * xxPrime5
		hash = bits.RotateLeft32(hash, 11) * xxPrime1
	}
	// Avalanche: each bit of the input changes half of the bits of the output.
	hash = (hash ^ hash>>15) * xxPrime2
	hash = (hash ^ hash>>13) * xxPrime3
	return hash ^ hash>>16
}
