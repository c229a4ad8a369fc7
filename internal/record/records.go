package record

import (
	"errors"
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/compress"
)

// Header is one header of a record. Value is nil when null; a null key is corrupt. Order and
// duplicates have a meaning.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch; its slices point into the batch or into the iterator's buffer.
type Record struct {
	Offset    int64
	Timestamp int64  // ms
	Key       []byte // nil when null
	Value     []byte // nil when null: a tombstone, if the record has a key
	Headers   []Header

	bodyBytes int // of a record that was read: the size of its encoding without the length in front
}

// BodyBytes is the size of the record's encoding in the batch it was read from, without the length
// in front; 0 for one that was not.
func (r *Record) BodyBytes() int { return r.bodyBytes }

// Tombstone tells whether the record deletes its key.
func (r *Record) Tombstone() bool { return r.Key != nil && r.Value == nil }

// Records calls visit for each record of the batch, decompressing at most limit bytes. The record
// and its slices are valid during the call only. It fails with an error wrapping ErrCorrupt on
// anything the format forbids, and stops at visit's error. When the records decompress to more than
// limit, the error wraps compress.ErrTooLarge and not ErrCorrupt.
func (b Batch) Records(limit int, visit func(*Record) error) error {
	last := int64(-1) // the delta of the record before
	return b.walk(limit, func(r *Record) error {
		delta := r.Offset - b.BaseOffset()
		if delta <= last || delta > int64(b.LastOffsetDelta()) {
			return fmt.Errorf("%w: offset delta %d after %d, last %d", ErrCorrupt, delta, last,
				b.LastOffsetDelta())
		}
		last = delta
		return visit(r)
	})
}

// walk is Records without the rule that offsets ascend: old producers number the records of a
// compressed batch wrongly, and Validate mends that.
func (b Batch) walk(limit int, visit func(*Record) error) error {
	if b.Count() == 0 && len(b) == HeaderBytes {
		return nil // emptied by cleaning
	}
	payload, unpacked, err := b.unpack(limit)
	if err != nil {
		return err
	}
	if unpacked != nil {
		defer unpacked.release()
	}
	return b.walkPayload(payload, visit)
}

// unpack returns the records, decompressed if need be. Then they lie in a pooled buffer, behind
// room for a header; else it is nil.
func (b Batch) unpack(limit int) (payload []byte, unpacked *buffer, err error) {
	payload = b[HeaderBytes:]
	if b.Codec() == compress.None {
		return payload, nil, nil
	}
	unpacked = takeBuffer()
	unpacked.bytes, err = compress.Decompress(append(unpacked.bytes[:0], emptyHeader[:]...),
		payload, b.Codec(), limit)
	if err != nil {
		unpacked.release()
		return nil, nil, decompressError(b, err)
	}
	return unpacked.bytes[HeaderBytes:], unpacked, nil
}

// PayloadSize returns the decompressed size of the batch's records in bytes, without holding them
// (compress.Size). It fails with an error wrapping compress.ErrTooLarge if they exceed limit, and
// with one wrapping ErrCorrupt if they cannot be decompressed. As in Records, the limit does not
// apply to an uncompressed batch.
func (b Batch) PayloadSize(limit int) (int, error) {
	payload := b[HeaderBytes:]
	if b.Codec() == compress.None || b.Count() == 0 && len(payload) == 0 {
		return len(payload), nil
	}
	size, err := compress.Size(payload, b.Codec(), limit)
	if err != nil {
		return 0, decompressError(b, err)
	}
	return size, nil
}

// decompressError tells "too large", which the batch's maker may be allowed, from "corrupt", which
// nobody is.
func decompressError(b Batch, err error) error {
	if errors.Is(err, compress.ErrTooLarge) {
		return fmt.Errorf("decompress %s batch at offset %d: %w", b.Codec(), b.BaseOffset(), err)
	}
	return fmt.Errorf("%w: decompress at offset %d: %w", ErrCorrupt, b.BaseOffset(), err)
}

// walkPayload visits the records of a payload that is decompressed. Count and payload must end
// together: a batch that claims fewer records than it has would hide the rest from a cleaner that
// rebuilds it.
func (b Batch) walkPayload(payload []byte, visit func(*Record) error) error {
	var r Record
	base := b.BaseOffset()
	for index := range b.Count() {
		body, rest, err := splitRecord(payload)
		if err != nil {
			return fmt.Errorf("%w: record %d at offset %d: %w", ErrCorrupt, index, base, err)
		}
		if err := r.parse(body); err != nil {
			return fmt.Errorf("%w: record %d at offset %d: %w", ErrCorrupt, index, base, err)
		}
		payload = rest
		b.settle(&r)
		if err := visit(&r); err != nil {
			return err
		}
	}
	if b.Count() < 0 || len(payload) > 0 {
		return fmt.Errorf("%w: %d bytes behind %d records at offset %d", ErrCorrupt, len(payload),
			b.Count(), base)
	}
	return nil
}

// settle makes offset and timestamp of the deltas that parse leaves there. With LogAppendTime the
// timestamp's delta has no meaning.
func (b Batch) settle(r *Record) {
	r.Offset += b.BaseOffset()
	r.Timestamp += b.BaseTimestamp()
	if b.TimestampType() == LogAppendTime {
		r.Timestamp = b.MaxTimestamp()
	}
}

// splitRecord splits the body of the first record off buf.
func splitRecord(buf []byte) (body, rest []byte, err error) {
	length, size := varint32(buf)
	if size == 0 {
		return nil, nil, errVarint
	}
	buf = buf[size:]
	// Checked before it is sliced: the length is the sender's.
	if length < 0 || int(length) > len(buf) {
		return nil, nil, fmt.Errorf("body of %d bytes in %d", length, len(buf))
	}
	return buf[:length], buf[length:], nil
}

var errVarint = errors.New("varint does not end")

// parse reads a record's body, which it must consume exactly. Offset and Timestamp become deltas;
// Headers is reused.
func (r *Record) parse(body []byte) error {
	if len(body) == 0 {
		return errors.New("empty body")
	}
	r.bodyBytes = len(body)
	// Fields are read without a check at each: the cursor keeps the first error, and gives zeros
	// from there on.
	cursor := cursor{rest: body[1:]} // one byte of attributes, without a meaning yet
	r.Timestamp = cursor.int64()
	r.Offset = int64(cursor.int32())
	r.Key = cursor.nullable("key")
	r.Value = cursor.nullable("value")
	headers := cursor.int32()
	// A header takes at least two bytes, so this bounds the growth of Headers by the size of the
	// batch.
	if cursor.err == nil && (headers < 0 || int(headers) > len(cursor.rest)/2) {
		return fmt.Errorf("%d headers in %d bytes", headers, len(cursor.rest))
	}
	r.Headers = r.Headers[:0]
	for i := int32(0); i < headers && cursor.err == nil; i++ {
		key := cursor.nullable("header key")
		if key == nil && cursor.err == nil {
			return errors.New("null header key")
		}
		r.Headers = append(r.Headers, Header{Key: key, Value: cursor.nullable("header value")})
	}
	// Bytes behind the last field would be lost when the record is made anew.
	if cursor.err == nil && len(cursor.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(cursor.rest))
	}
	return cursor.err
}

// cursor reads fields until the first error, after which it gives zero values.
type cursor struct {
	rest []byte
	err  error
}

// int32 reads a varint, or gives 0 after an error.
func (c *cursor) int32() int32 {
	value, size := varint32(c.rest)
	return advance(c, value, size)
}

// int64 reads a varlong, or gives 0 after an error.
func (c *cursor) int64() int64 {
	value, size := varint64(c.rest)
	return advance(c, value, size)
}

// advance takes a value of size bytes off the cursor; size 0 says that the varint did not end.
func advance[T int32 | int64](c *cursor, value T, size int) T {
	if c.err == nil && size == 0 {
		c.err = errVarint
	}
	if c.err != nil {
		return 0
	}
	c.rest = c.rest[size:]
	return value
}

// nullable reads a length and as many bytes. It never returns an empty nil for what is not null: an
// empty key is a key.
func (c *cursor) nullable(what string) []byte {
	length := c.int32()
	if c.err == nil && (length < -1 || int(length) > len(c.rest)) {
		c.err = fmt.Errorf("%s of %d bytes in %d", what, length, len(c.rest))
	}
	if c.err != nil || length == -1 {
		return nil
	}
	// clipped: who appends to a key must not write into the value behind it
	value := c.rest[:length:length]
	c.rest = c.rest[length:]
	return value
}

// bufferBytesMax is the largest buffer the pool keeps: the rare huge batch shall not stay in memory
// for ever.
const bufferBytesMax = 4 << 20

// buffer is memory for decompressed records.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func takeBuffer() *buffer { return buffers.Get().(*buffer) }

// release gives the buffer back; nothing may point into it any more.
func (b *buffer) release() {
	if cap(b.bytes) > bufferBytesMax {
		b.bytes = nil
	}
	buffers.Put(b)
}
