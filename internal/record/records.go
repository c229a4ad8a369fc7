package record

import (
	"errors"
	"fmt"
	"sync"

	"heartwood.dev/heartwood/internal/compress"
)

// Header is one header of a record. Value is nil if it is null; a null key is corrupt. The order of
// headers and duplicates are significant.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record of a batch. Its slices refer to the batch's memory or to the iterator's
// buffer.
type Record struct {
	Offset    int64
	Timestamp int64  // in ms
	Key       []byte // nil if null
	Value     []byte // nil if null; a record with a key and a null value is a tombstone
	// Headers is empty if the record was read from a batch and has more than headersDecodedMax
	// headers. Use AllHeaders for such a record.
	Headers []Header

	encoded encodedHeaders // the record's headers if Headers is empty
	// bodyBytes is the number that BodyBytes returns.
	bodyBytes int
}

// BodyBytes returns the size of the record's encoding in the batch from which it was read, without
// the length prefix. It is 0 if the record was not read from a batch.
func (r *Record) BodyBytes() int { return r.bodyBytes }

// Tombstone reports whether the record deletes its key: it has a key and a null value.
func (r *Record) Tombstone() bool { return r.Key != nil && r.Value == nil }

// Records calls visit for each record of the batch. The record and its slices are valid only during
// the call. If visit returns an error, Records stops and returns it. If the batch violates the
// format, the error wraps ErrCorrupt. If the records decompress to more than limit bytes, the error
// wraps compress.ErrTooLarge and not ErrCorrupt.
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

// walk is like Records, but does not check that offsets ascend: old producers assign wrong offset
// deltas within a compressed batch, and Validate corrects these deltas.
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
// nil. The result single is false if the compressed data are a concatenation
// (compress.DecompressSingle).
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

// PayloadSize returns the decompressed size of the batch's records in bytes. It does not buffer
// them (compress.Size). The error wraps compress.ErrTooLarge if the size exceeds limit, and
// ErrCorrupt if the records cannot be decompressed. As in Records, the limit does not apply to an
// uncompressed batch.
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

// decompressError returns an error that wraps either ErrTooLarge or ErrCorrupt. A batch that
// exceeds the caller's limit may be valid, so it must not be reported as corrupt.
func decompressError(b Batch, err error) error {
	if errors.Is(err, compress.ErrTooLarge) {
		return fmt.Errorf("decompress %s batch at offset %d: %w", b.Codec(), b.BaseOffset(), err)
	}
	return fmt.Errorf("%w: decompress at offset %d: %w", ErrCorrupt, b.BaseOffset(), err)
}

// walkPayload visits the records of a decompressed payload. The header's record count must match
// the payload exactly. If the count were smaller, a cleaner that rebuilds the batch would silently
// drop the remaining records.
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

// resolveDeltas converts the deltas that parse stored in r to the absolute offset and timestamp.
// With LogAppendTime, it uses the batch's largest timestamp instead.
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
	// Check the length before slicing, because the sender may send any length.
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
	// The cursor keeps its first error and then returns zero values, so one check after several fields
	// suffices.
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
	// Reject bytes after the last field, because re-encoding the record would lose them.
	if cursor.err == nil && len(cursor.rest) > 0 {
		return fmt.Errorf("%d bytes after the last field", len(cursor.rest))
	}
	return cursor.err
}

// cursor reads fields. After its first error, it returns zero values.
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

// advance consumes a varint that was decoded from the next size bytes, and returns its value. If
// size is 0, the varint is unterminated, and advance sets the error.
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

// nullable reads a length and that many bytes. It returns nil only for null, because an empty key
// is not a null key.
func (c *cursor) nullable(what string) []byte {
	length := c.int32()
	if c.err == nil && (length < -1 || int(length) > len(c.rest)) {
		c.err = fmt.Errorf("%s of %d bytes in %d", what, length, len(c.rest))
	}
	if c.err != nil || length == -1 {
		return nil
	}
	// Clip the capacity, so that an append to a key cannot overwrite the value after it.
	value := c.rest[:length:length]
	c.rest = c.rest[length:]
	return value
}

// bufferBytesMax is the size of the largest buffer that the pool keeps. A larger buffer is dropped,
// so that a rare large batch does not stay in memory.
const bufferBytesMax = 4 << 20

// buffer is pooled memory for decompressed records.
type buffer struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func getBuffer() *buffer { return buffers.Get().(*buffer) }

// release returns the buffer to the pool. The caller must not use slices of the buffer afterwards.
func (b *buffer) release() {
	if cap(b.bytes) > bufferBytesMax {
		b.bytes = nil
	}
	buffers.Put(b)
}
