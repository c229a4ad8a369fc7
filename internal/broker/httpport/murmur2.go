package httpport

import "encoding/binary"

// partitionOf returns the partition that the default partitioner of Kafka's clients chooses for a
// key: toPositive(murmur2(key)) % count
// (org.apache.kafka.clients.producer.internals.BuiltInPartitioner).
func partitionOf(key []byte, count int) int32 {
	return int32(murmur2(key)&0x7fffffff) % int32(count)
}

// murmur2 returns the 32-bit MurmurHash2 of data with the seed of Kafka's clients
// (org.apache.kafka.common.utils.Utils.murmur2).
func murmur2(data []byte) uint32 {
	const (
		seed     = 0x9747b28c
		multiply = 0x5bd1e995
		shift    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * multiply
		k = (k ^ k>>shift) * multiply
		h = h*multiply ^ k
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
		if i == 0 {
			h *= multiply
		}
	}
	h = (h ^ h>>13) * multiply
	return h ^ h>>15
}
