package record

import "encoding/binary"

// Varints are zigzag LEB128 with at most 5 bytes for an int32 and 10 for an int64. As in Kafka, a
// varint may be longer than necessary, and bits beyond the type are dropped. Only an unterminated
// varint is an error.
const (
	varint32BytesMax = 5
	varint64BytesMax = 10
)

// varint32 decodes the int32 at the start of buf. size is 0 if the varint is unterminated.
func varint32(buf []byte) (value int32, size int) {
	raw, size := uvarint(buf, varint32BytesMax)
	low := uint32(raw)
	return int32(low>>1) ^ -int32(low&1), size
}

// varint64 decodes the int64 at the start of buf. size is 0 if the varint is unterminated.
func varint64(buf []byte) (value int64, size int) {
	raw, size := uvarint(buf, varint64BytesMax)
	return int64(raw>>1) ^ -int64(raw&1), size
}

// uvarint decodes a varint of at most bytesMax bytes. size is 0 if none of these bytes terminates
// it.
func uvarint(buf []byte, bytesMax int) (value uint64, size int) {
	for i := 0; i < len(buf) && i < bytesMax; i++ {
		value |= uint64(buf[i]&0x7f) << (7 * i)
		if buf[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// appendVarint appends the shortest encoding of value, which is the same for int32 and int64
// fields.
func appendVarint(dst []byte, value int64) []byte { return binary.AppendVarint(dst, value) }

// varintSize returns the number of bytes that appendVarint appends.
func varintSize(value int64) int {
	size := 1
	for raw := uint64(value<<1) ^ uint64(value>>63); raw >= 0x80; raw >>= 7 {
		size++
	}
	return size
}
