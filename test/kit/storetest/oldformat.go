package storetest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// OldMessage is a message of format v0 or v1, which Apache Kafka wrote before 0.11. The fields have
// the names in Kafka's protocol guide, "Message sets".
type OldMessage struct {
	Offset     int64
	Magic      int8
	Attributes int8  // 1: Value is a message set, compressed with gzip
	Timestamp  int64 // only in v1
	Key, Value []byte
}

// Bytes returns the message with its offset and size, as it is stored in a data file.
func (m OldMessage) Bytes() []byte {
	body := []byte{byte(m.Magic), byte(m.Attributes)}
	if m.Magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(m.Timestamp))
	}
	for _, field := range [][]byte{m.Key, m.Value} {
		length := int32(len(field))
		if field == nil {
			length = -1
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(length)), field...)
	}
	out := binary.BigEndian.AppendUint64(nil, uint64(m.Offset))
	out = binary.BigEndian.AppendUint32(out, uint32(4+len(body)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

// OldMessages returns n messages that start at an offset.
func OldMessages(magic int8, offset int64, n int) (set []byte) {
	for i := range int64(n) {
		set = append(set, OldMessage{Offset: offset + i, Magic: magic, Timestamp: 1000 + i,
			Key: []byte{'k', byte('0' + i%10)}, Value: []byte("value")}.Bytes()...)
	}
	return set
}

// OldCompressed returns one message that contains n compressed messages, which start at an offset.
// Its own offset is the offset of the last contained message. In v1, the offsets of the contained
// messages are relative.
func OldCompressed(t testing.TB, magic int8, offset int64, n int) []byte {
	t.Helper()
	inner := offset
	if magic == 1 {
		inner = 0
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write(OldMessages(magic, inner, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return OldMessage{Offset: offset + int64(n) - 1, Magic: magic, Attributes: 1,
		Timestamp: 1000 + int64(n), Value: compressed.Bytes()}.Bytes()
}
