package record

import "encoding/binary"

// Varints are zigzag LEB128, at most 5 bytes for an int32 and 10 for an int64. Forms longer than
// need be are read, and bits beyond the type are dropped, as Kafka does: only a varint that does
// not end is an error.
const (
	varint32BytesMax = 5
	varint64BytesMax = 10
)

// varint32 reads an int32 from the front of buf; size is 0 if it does not end in time.
func varint32(buf []byte) (value int32, size int) {
	raw, size := uvarint(buf, varint32BytesMax)
	low := uint32(raw)
	return int32(low>>1) ^ -int32(low&1), size
}

// varint64 reads an int64 from the front of buf; size is 0 if it does not end in time.
func varint64(buf []byte) (value int64, size int) {
	raw, size := uvarint(buf, varint64BytesMax)
	return int64(raw>>1) ^ -int64(raw&1), size
}

// uvarint reads at most bytesMax bytes; size is 0 if the last of them, or of buf, says that more
// follow.
func uvarint(buf []byte, bytesMax int) (value uint64, size int) {
	for i := 0; i < len(buf) && i < bytesMax; i++ {
		value |= uint64(buf[i]&0x7f) << (7 * i)
		if buf[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// appendVarint appends the shortest form. For a value within int32 it is the int32's.
func appendVarint(dst []byte, value int64) []byte { return binary.AppendVarint(dst, value) }

// varintSize is how many bytes appendVarint takes.
func varintSize(value int64) int {
	size := 1
	for raw := uint64(value<<1) ^ uint64(value>>63); raw >= 0x80; raw >>= 7 {
		size++
	}
	return size
}
