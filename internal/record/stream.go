package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"heartwood.dev/heartwood/internal/compress"
)

// Stream iterates over the records of a batch that does not have to be in memory: b may be the
// header alone, and payload supplies the stored bytes after the header. Stream holds one record at
// a time, besides the codec's buffers (compress.NewReader). It stops reading when the caller breaks
// out of the loop. The record and its slices are valid until the next iteration.
//
// Stream yields the same records and errors as Records, with three differences. First, an error is
// yielded last, with a nil record, after the records that precede it in the batch; after a break it
// is not reported. Second, the limit bufferMax (bytes) applies to each record and to the codec's
// memory, and not to the sum of all records. Third, errors of payload are returned unchanged.
func (b Batch) Stream(payload io.Reader, bufferMax int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		payload := payload // a copy for this pass; for a second pass, the caller must supply a new reader
		if b.Count() == 0 {
			var err error
			if payload, err = nonEmptyReader(payload); payload == nil {
				if err != nil {
					yield(nil, err)
				}
				// Cleaning has removed all records, so the payload contains not even a codec frame.
				return
			}
		}
		in := compress.NewReader(payload, b.Codec(), bufferMax)
		defer in.Close()
		s := stream{in: in, bufferMax: bufferMax, memory: getBuffer()}
		defer s.memory.release()
		if err := b.yieldRecords(&s, yield); err != nil {
			yield(nil, err)
		}
	}
}

// nonEmptyReader returns a reader of all bytes of r, or nil if r is empty or fails.
func nonEmptyReader(r io.Reader) (io.Reader, error) {
	var first [1]byte
	switch _, err := io.ReadFull(r, first[:]); err {
	case nil:
		return io.MultiReader(bytes.NewReader(first[:]), r), nil
	case io.EOF:
		return nil, nil //nolint:nilnil // an empty reader is not an error
	default:
		return nil, err
	}
}

// yieldRecords yields the records of s. If yield returns false, yieldRecords returns nil and does
// not check the remaining bytes. So a caller that has found its record gets no error from a later
// part of the batch.
func (b Batch) yieldRecords(s *stream, yield func(*Record, error) bool) error {
	var r Record
	last := int64(-1) // offset delta of the previous record
	// A negative count skips the loop, and checkEnd then fails.
	for index := range b.Count() {
		body, err := s.next()
		if err == nil {
			err = r.parse(body)
		}
		if err != nil {
			return b.streamError(fmt.Errorf("record %d: %w", index, err))
		}
		delta := r.Offset
		if delta <= last || delta > int64(b.LastOffsetDelta()) {
			return b.streamError(fmt.Errorf("offset delta %d after %d, last %d", delta, last,
				b.LastOffsetDelta()))
		}
		last = delta
		b.resolveDeltas(&r)
		if !yield(&r, nil) {
			return nil
		}
	}
	return b.checkEnd(s)
}

// checkEnd checks that no bytes follow the last record. Reading to the end also makes the codec
// read its trailer, which contains the checksum of gzip and zstd.
func (b Batch) checkEnd(s *stream) error {
	if err := s.fill(1); err != nil {
		return b.streamError(err)
	}
	if b.Count() < 0 || len(s.rest) > 0 {
		return b.streamError(fmt.Errorf("bytes after %d records", b.Count()))
	}
	return nil
}

// streamError wraps err in ErrCorrupt, unless the batch is too large or its source failed.
func (b Batch) streamError(err error) error {
	var source sourceError
	if errors.As(err, &source) {
		return source.error
	}
	if errors.Is(err, compress.ErrTooLarge) {
		return fmt.Errorf("read %s batch at offset %d: %w", b.Codec(), b.BaseOffset(), err)
	}
	return fmt.Errorf("%w: at offset %d: %w", ErrCorrupt, b.BaseOffset(), err)
}

// sourceError marks an error of the payload's reader. It distinguishes a disk error from corrupt
// data, which would make a cleaner or a recovery act.
type sourceError struct{ error }

// streamBytes is the initial buffer size of a stream. Most records are smaller.
const streamBytes = 16 << 10

// stream splits the decompressed bytes of a reader into records.
type stream struct {
	in        *compress.Reader
	bufferMax int
	memory    *buffer
	rest      []byte // the part of memory that was read and that next has not yet returned
	ended     bool   // true if in has returned io.EOF
}

// next returns the body of the next record, which is valid until the next call. A length field may
// be wrong, so next enlarges the memory only by bytes that were read.
func (s *stream) next() ([]byte, error) {
	// Near the end, fill may buffer fewer bytes than a varint can have. splitRecord checks whether
	// they suffice.
	if err := s.fill(varint32BytesMax); err != nil {
		return nil, err
	}
	length, size := varint32(s.rest)
	switch {
	case size == 0:
		return nil, errVarint
	case length > 0 && int(length) > s.bufferMax:
		return nil, fmt.Errorf("body of %d bytes: %w", length, compress.ErrTooLarge)
	case length > 0:
		if err := s.fill(size + int(length)); err != nil {
			return nil, err
		}
	}
	body, rest, err := splitRecord(s.rest)
	s.rest = rest
	return body, err
}

// fill reads until n bytes are buffered or the reader ends.
func (s *stream) fill(n int) error {
	for len(s.rest) < n && !s.ended {
		s.makeRoom()
		read, err := s.in.Read(s.rest[len(s.rest):cap(s.rest)])
		s.rest = s.rest[:len(s.rest)+read] // Read may return bytes together with an error
		switch {
		case err == io.EOF: //nolint:errorlint // only an unwrapped io.EOF is the end
			s.ended = true
		case errors.Is(err, compress.ErrCorrupt), errors.Is(err, compress.ErrTooLarge):
			return err
		case err != nil:
			return sourceError{err}
		}
	}
	return nil
}

// makeRoom makes space after the buffered bytes. If the buffered bytes take at most half of the
// buffer, makeRoom moves them to the front. Otherwise it allocates a buffer of twice the size. So a
// byte is moved about once on average.
func (s *stream) makeRoom() {
	if len(s.rest) < cap(s.rest) {
		return
	}
	if size := cap(s.memory.bytes); size < streamBytes || 2*len(s.rest) > size {
		grown := make([]byte, max(streamBytes, 2*size))
		s.rest = grown[:copy(grown, s.rest)]
		s.memory.bytes = grown[:0]
		return
	}
	front := s.memory.bytes[:cap(s.memory.bytes)]
	s.rest = front[:copy(front, s.rest)]
}
