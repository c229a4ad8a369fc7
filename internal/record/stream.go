package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"heartwood.dev/heartwood/internal/compress"
)

// Stream is Records for a batch that need not lie in memory: b may be its header alone, and payload
// gives what follows the header, as it is stored. One record is held at a time, besides what the
// codec holds (compress.NewReader), and who breaks off reads no further. The record and its slices
// are valid until the next one.
//
// It gives the records that Records gives, and fails where Records fails, with these differences: a
// fault is met only behind the records before it, and one behind the break not at all; heldMax
// bounds each record and not all of them together, so ErrTooLarge comes only of a batch with a
// record, or a piece of its codec's, that is larger; and errors of payload come as they are.
// Nothing follows an error, which comes with a nil record.
func (b Batch) Stream(payload io.Reader, heldMax int) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		payload := payload // a second pass over it is the caller's to arrange
		if b.Count() == 0 {
			var err error
			if payload, err = unlessEmpty(payload); payload == nil {
				if err != nil {
					yield(nil, err)
				}
				return // emptied by cleaning: there is not even the frame of a codec
			}
		}
		in := compress.NewReader(payload, b.Codec(), heldMax)
		defer in.Close()
		s := stream{in: in, heldMax: heldMax, memory: takeBuffer()}
		defer s.memory.release()
		if err := b.eachOf(&s, yield); err != nil {
			yield(nil, err)
		}
	}
}

// unlessEmpty returns what reads as r does, or nil if that has nothing to read, or fails.
func unlessEmpty(r io.Reader) (io.Reader, error) {
	var first [1]byte
	switch _, err := io.ReadFull(r, first[:]); err {
	case nil:
		return io.MultiReader(bytes.NewReader(first[:]), r), nil
	case io.EOF:
		return nil, nil //nolint:nilnil // nothing to read is no fault
	default:
		return nil, err
	}
}

// eachOf is Stream on what is open. It returns nil when yield wants no more: what follows is not
// looked at then, so a batch that is broken further on is as good as a whole one to who found his
// record.
func (b Batch) eachOf(s *stream, yield func(*Record, error) bool) error {
	var r Record
	last := int64(-1) // the delta of the record before
	// A negative count gives no round, and an error behind the loop.
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
		b.settle(&r)
		if !yield(&r, nil) {
			return nil
		}
	}
	return b.checkEnd(s)
}

// checkEnd holds what follows the last record against what may: nothing. It also makes the codec
// read its own end, where gzip and zstd keep their checksums.
func (b Batch) checkEnd(s *stream) error {
	if err := s.fill(1); err != nil {
		return b.streamError(err)
	}
	if b.Count() < 0 || len(s.rest) > 0 {
		return b.streamError(fmt.Errorf("bytes behind %d records", b.Count()))
	}
	return nil
}

// streamError makes an error one of the batch: corrupt, unless its cause is the size, or the
// payload's source.
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

// sourceError marks what is not the batch's fault: a disk that fails must not be taken for data
// that are damaged, which a cleaner or a recovery would act on.
type sourceError struct{ error }

// streamBytes is the room a stream begins with: more than most records.
const streamBytes = 16 << 10

// stream cuts records out of what a reader gives.
type stream struct {
	in      *compress.Reader
	heldMax int
	memory  *buffer
	rest    []byte // within memory: read, and not given out yet
	ended   bool   // in has no more
}

// next returns the body of the next record, valid until the next call. Sizes are claims: memory
// grows with what has come.
func (s *stream) next() ([]byte, error) {
	// At the end there may be fewer bytes than a length can have; splitRecord sees whether they are
	// enough.
	if err := s.fill(varint32BytesMax); err != nil {
		return nil, err
	}
	length, size := varint32(s.rest)
	switch {
	case size == 0:
		return nil, errVarint
	case length > 0 && int(length) > s.heldMax:
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

// fill reads until n bytes are there, or no more come.
func (s *stream) fill(n int) error {
	for len(s.rest) < n && !s.ended {
		s.makeRoom()
		read, err := s.in.Read(s.rest[len(s.rest):cap(s.rest)])
		s.rest = s.rest[:len(s.rest)+read] // bytes may come with an error, and with the end
		switch {
		case err == io.EOF: //nolint:errorlint // the plain one alone is the end
			s.ended = true
		case errors.Is(err, compress.ErrCorrupt), errors.Is(err, compress.ErrTooLarge):
			return err
		case err != nil:
			return sourceError{err}
		}
	}
	return nil
}

// makeRoom makes room behind what is there: by moving it to the front if that at least doubles the
// room, so that a byte is moved as rarely as in a buffer that doubles, else by more memory.
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
