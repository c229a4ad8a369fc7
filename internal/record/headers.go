package record

import (
	"iter"
	"slices"
)

// headersDecodedMax is the maximum number of headers of a record that parse decodes. A Header takes
// 48 bytes of memory, but possibly only two bytes in a batch. So a record of 64 MiB with as many
// headers as possible would need 1.5 GB. In practice, records have few headers.
const headersDecodedMax = 1024

// encodedHeaders contains a record's headers in the encoding of its batch.
type encodedHeaders struct {
	count int
	bytes []byte // the encoded headers, checked, without their count
}

// HeaderCount returns the number of headers.
func (r *Record) HeaderCount() int { return max(len(r.Headers), r.encoded.count) }

// AllHeaders iterates over the headers, in order. Unlike the field Headers, it also yields the
// headers of a record that has more than headersDecodedMax, and allocates no memory for them. The
// slices are valid as long as the record's slices.
func (r *Record) AllHeaders() iter.Seq[Header] {
	if r.encoded.count == 0 {
		return slices.Values(r.Headers)
	}
	return func(yield func(Header) bool) {
		cursor := cursor{rest: r.encoded.bytes}
		for range r.encoded.count {
			h := Header{Key: cursor.nullable("key")}
			if h.Value = cursor.nullable("value"); !yield(h) {
				return
			}
		}
	}
}

// split sets e to the first count headers in body, and returns the bytes after them.
func (e *encodedHeaders) split(body []byte, count int) (rest []byte, err error) {
	cursor := cursor{rest: body}
	for range count {
		if key := cursor.nullable("header key"); key == nil && cursor.err == nil {
			return nil, errNullHeaderKey
		}
		if cursor.nullable("header value"); cursor.err != nil {
			return nil, cursor.err
		}
	}
	*e = encodedHeaders{count, body[:len(body)-len(cursor.rest)]}
	return cursor.rest, nil
}

// headersSize returns the number of bytes that appendHeaders appends.
func headersSize(r *Record) int {
	size := varintSize(int64(r.HeaderCount())) + len(r.encoded.bytes)
	for _, h := range r.Headers {
		size += nullableSize(h.Key) + nullableSize(h.Value)
	}
	return size
}

// appendHeaders encodes the number of headers and the headers. It copies headers that were not
// decoded.
func appendHeaders(dst []byte, r *Record) []byte {
	dst = appendVarint(dst, int64(r.HeaderCount()))
	for _, h := range r.Headers {
		dst = appendNullable(dst, h.Key)
		dst = appendNullable(dst, h.Value)
	}
	return append(dst, r.encoded.bytes...)
}
