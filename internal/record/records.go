package record

import (
	"errors"
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/compress"
)

// Header is one header of a record. Value is nil when null; a null key is corrupt. Order and
// duplicates are significant.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch. Its slices point into the batch or into the iterator's buffer.
type Record struct {
	Offset    int64
	Timestamp int64  // ms
	Key       []byte // nil when null
	Value     []byte // nil when null; a record with a key and a null value is a tombstone
	// Headers is empty if the record was read from a batch and has more than 1,024 headers: see
	// AllHeaders.
	Headers []Header

	encoded encodedHeaders // source of the headers if Headers is empty
	// bodyBytes is the result of BodyBytes.
	bodyBytes int
}

// BodyBytes returns the record's encoded size, without the length prefix, in the batch it was read
// from. It is 0 for a record that was not read from a batch.
func (r *Record) BodyBytes() int { return r.bodyBytes }

// Tombstone reports whether the record deletes its key.
func (r *Record) Tombstone() bool { return r.Key != nil && r.Value == nil }

// Records calls visit for each record of the batch, decompressing at most limit bytes. The record
// and its slices are valid during the call only. If the batch violates the format, the error wraps
// ErrCorrupt. Records stops at an error of visit and returns it. If the records decompress to more
// than limit, the error wraps compress.ErrTooLarge and not ErrCorrupt.
func (b Batch) Records(limit int, visit func(*Record) error) error {
	last := int64(-1) // offset delta of the previous record
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

// walk is Records without the check that offsets ascend. Old producers assign wrong offset deltas
// within a compressed batch, and Validate corrects these deltas.
func (b Batch) walk(limit int, visit func(*Record) error) error {
	if b.Count() == 0 && len(b) == HeaderBytes {
		return nil // cleaning has removed all records
	}
	payload, decompressed, _, err := b.decompressPayload(limit)
	if err != nil {
		return err
	}
	if decompressed != nil {
		defer decompressed.release()
	}
	return b.walkPayload(payload, visit)
}

// decompressPayload returns the encoded records, decompressed if necessary. Decompressed records
// are in a pooled buffer, after space for a header. If the batch is not compressed, the buffer is
// nil. Result single is false if the compressed data are a concatenation (DecompressSingle).
func (b Batch) decompressPayload(limit int) (payload []byte, decompressed *buffer, single bool,
	err error) {
	payload = b[HeaderBytes:]
	if b.Codec() == compress.None {
		return payload, nil, true, nil
	}
	decompressed = getBuffer()
	decompressed.bytes, single, err = compress.DecompressSingle(
		append(decompressed.bytes[:0], emptyHeader[:]...), payload, b.Codec(), limit)
	if err != nil {
		decompressed.release()
		return nil, nil, false, decompressError(b, err)
	}
	return decompressed.bytes[HeaderBytes:], decompressed, single, nil
}

// PayloadSize returns the decompressed size of the batch's records in bytes, without buffering them
// (compress.Size). The error wraps compress.ErrTooLarge if they exceed limit, and ErrCorrupt if
// they cannot be decompressed. As in Records, the limit does not apply to an uncompressed batch.
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

// decompressError keeps ErrTooLarge distinct from ErrCorrupt: a batch beyond the caller's limit may
// still be valid.
func decompressError(b Batch, err error) error {
	if errors.Is(err, compress.ErrTooLarge) {
		return fmt.Errorf("decompress %s batch at offset %d: %w", b.Codec(), b.BaseOffset(), err)
	}
	return fmt.Errorf("%w: decompress at offset %d: %w", ErrCorrupt, b.BaseOffset(), err)
}

// walkPayload visits the records of a decompressed payload. The number of records in the header
// must match the payload exactly. If it were smaller, a cleaner that rebuilds the batch would
// silently drop the remaining records.
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
		b.resolveDeltas(&r)
		if err := visit(&r); err != nil {
			return err
		}
	}
	if b.Count() < 0 || len(payload) > 0 {
		return fmt.Errorf("%w: %d bytes after %d records at offset %d", ErrCorrupt, len(payload),
			b.Count(), base)
	}
	return nil
}

// resolveDeltas converts the deltas that parse leaves in r to the absolute offset and timestamp.
// With LogAppendTime the timestamp is the batch's largest timestamp instead.
func (b Batch) resolveDeltas(r *Record) {
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
	// The sender chose the length, so it is checked before slicing.
	if length < 0 || int(length) > len(buf) {
		return nil, nil, fmt.Errorf("body of %d bytes in %d", length, len(buf))
	}
	return buf[:length], buf[length:], nil
}

var (
	errVarint        = errors.New("unterminated varint")
	errNullHeaderKey = errors.New("null header key")
)

// parse decodes a record's body, and fails if bytes remain. It sets Offset and Timestamp to the
// deltas, and reuses the memory of Headers.
func (r *Record) parse(body []byte) error {
	if len(body) == 0 {
		return errors.New("empty body")
	}
	r.bodyBytes = len(body)
	// The cursor keeps its first error and returns zero values afterwards, so one check after
	// several fields is enough.
	cursor := cursor{rest: body[1:]} // skips the unused attributes byte
	r.Timestamp = cursor.int64()
	r.Offset = int64(cursor.int32())
	r.Key = cursor.nullable("key")
	r.Value = cursor.nullable("value")
	headers := cursor.int32()
	// A header has at least two bytes.
	if cursor.err == nil && (headers < 0 || int(headers) > len(cursor.rest)/2) {
		return fmt.Errorf("%d headers in %d bytes", headers, len(cursor.rest))
	}
	r.Headers, r.encoded = r.Headers[:0], encodedHeaders{}
	if headers > headersDecodedMax {
		cursor.rest, cursor.err = r.encoded.split(cursor.rest, int(headers))
		headers = 0
	}
	for i := int32(0); i < headers && cursor.err == nil; i++ {
		key := cursor.nullable("header key")
		if key == nil && cursor.err == nil {
			return errNullHeaderKey
		}
		r.Headers = append(r.Headers, Header{Key: key, Value: cursor.nullable("header value")})
	}
	// Bytes after the last field would be lost when the record is re-encoded.
	if cursor.err == nil && len(cursor.rest) > 0 {
		return fmt.Errorf("%d bytes after the last field", len(cursor.rest))
	}
	return cursor.err
}

// cursor reads fields until the first error, after which it returns zero values.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) int32() int32 {
	value, size := varint32(c.rest)
	return advance(c, value, size)
}

func (c *cursor) int64() int64 {
	value, size := varint64(c.rest)
	return advance(c, value, size)
}

// advance consumes a value of size bytes; size 0 means an unterminated varint.
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

// nullable reads a length and that many bytes. It returns nil only for null: an empty key is not a
// null key.
func (c *cursor) nullable(what string) []byte {
	length := c.int32()
	if c.err == nil && (length < -1 || int(length) > len(c.rest)) {
		c.err = fmt.Errorf("%s of %d bytes in %d", what, length, len(c.rest))
	}
	if c.err != nil || length == -1 {
		return nil
	}
	// The capacity is clipped, so that an append to a key cannot overwrite the value after it.
	value := c.rest[:length:length]
	c.rest = c.rest[length:]
	return value
}

// bufferBytesMax is the largest buffer that the pool keeps, so that a rare large batch does not
// stay in memory.
const bufferBytesMax = 4 << 20

// buffer is pooled memory for decompressed records.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// release returns the buffer to the pool. No slice of it may be used afterwards.
func (b *buffer) release() {
	if cap(b.bytes) > bufferBytesMax {
		b.bytes = nil
	}
	buffers.Put(b)
}
