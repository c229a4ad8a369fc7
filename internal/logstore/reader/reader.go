// Package reader reads a log's batches from the log's current segment list (Reader).
//
// A read acquires no lock except the mutex of the last stable offset. It loads the log end again
// after it has loaded the list, because a truncation lowers the log end before it publishes the new
// list.
package reader

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Reader reads a log's batches. It acquires no lock except the mutex of the last stable offset.
type Reader struct {
	List    *segmentlist.Current
	Offsets *offsets.Offsets
	Dir     string // directory of the log
	// Verification contains a Verification; nil stands for VerifyNever.
	Verification *atomic.Int32
	// Damaged is called when a read finds the first damage in a segment; nil: nothing is called.
	Damaged func(h *segmentlist.Handle)
}

// Verification determines which batches a read verifies before it returns them. Batches of a
// segment in which damage was found are always verified.
type Verification int32

// These are the values of Verification.
const (
	VerifyOnce   Verification = iota // batches above Handle.VerifiedEnd
	VerifyAlways                     // all batches except those of the active segment
	VerifyNever
)

// ErrOffsetOutOfRange is returned if the offset is below the log start or above the limit of the
// read.
var ErrOffsetOutOfRange = errors.New("offset out of range")

// Slice is a range of complete batches in one data file. It keeps the segment's files open until
// Release.
type Slice struct {
	// File is the pinned data file, which stays open until Release; nil if Length is 0.
	File          vfs.File
	Position      int64 // position of the first batch in the file
	Length        int   // bytes of complete batches; 0 if the slice is empty
	LogStart      int64
	HighWatermark int64 // value at the time of the read, like LogStart and LastStable
	LastStable    int64
	// More is true if more batches follow below the limit of the read. The slice omits them because
	// of bytesMax or the end of the file.
	More bool
	// Aborted lists the aborted transactions that a reader of the slice must skip; only
	// ReadCommitted sets it. An element applies to its producer's transactional batches from
	// FirstOffset to LastOffset, the offset of the marker. For some elements, the slice may contain
	// no batch.
	Aborted []segment.AbortedTxn

	held *segmentlist.Handle
	// cutEnd is the end offset of the slice if it ends before a damaged batch; 0 if not.
	cutEnd int64
}

// Release must be called once for each Slice that a read returned without an error.
func (s *Slice) Release() {
	if s.held != nil {
		s.held.File().Unpin()
		s.held.Release()
		s.held = nil
	}
}

// Read returns complete batches below the offset limit, beginning with the batch that contains
// offset. It returns at most bytesMax bytes. If wholeFirst is true, it returns the first batch even
// if that batch is larger. A limit above LogEnd is lowered to LogEnd. If offset equals the limit,
// Read returns an empty slice. It acquires only the mutex of LastStable.
//
// Read fails with ErrOffsetOutOfRange if the offset is outside [LogStart, limit], with
// segmentlist.ErrStorage if the disk fails, and with ErrClosed. A disk failure during a read does
// not stop the log.
//
// Cleaning may leave a first batch that contains no record at or above the offset. Read skips such
// a batch if it can return a later batch. Otherwise a client that received only this batch would
// find no record and request the same offset forever.
func (r Reader) Read(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	// The log end is loaded before the list. So the list contains all batches below the log end,
	// even if the log rolls meanwhile.
	limit = min(limit, r.Offsets.LogEnd())
	list := r.List.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	defer list.Release()
	return r.readFrom(list, readRequest{offset: offset, limit: limit, bytesMax: bytesMax,
		wholeFirst: wholeFirst})
}

// ReadReplica reads for another replica. It returns batches up to the log end, including batches
// that cleaning left without records. Such a batch still contains its producer's sequence numbers.
// A replica without the batch would accept a repeated batch as a new one.
func (r Reader) ReadReplica(offset int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	limit := r.Offsets.LogEnd() // loaded before the list, for the same reason as in Read
	list := r.List.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	defer list.Release()
	return r.readFrom(list, readRequest{offset: offset, limit: limit, bytesMax: bytesMax,
		wholeFirst: wholeFirst, empties: true})
}

// readRequest contains the parameters of a read.
type readRequest struct {
	offset, limit int64
	bytesMax      int
	wholeFirst    bool // true to return a first batch that is larger than bytesMax
	empties       bool // true to return a first batch without a record at or above offset
	sealed        bool // the segment of the first batch is not the active one
}

// ReadCommitted reads for read_committed consumers. It returns batches below the last stable
// offset, together with the aborted transactions.
func (r Reader) ReadCommitted(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	// The last stable offset is loaded before the list, as in Read. So the list contains the
	// markers of all transactions that ended below the limit.
	limit = min(limit, r.Offsets.LastStable())
	list := r.List.Acquire()
	if list == nil {
		return nil, segmentlist.ErrClosed
	}
	defer list.Release()
	slice, err := r.readFrom(list,
		readRequest{offset: offset, limit: limit, bytesMax: bytesMax, wholeFirst: wholeFirst})
	if err != nil || slice.Length == 0 {
		return slice, err
	}
	if err := slice.findAborted(list, offset, limit); err != nil {
		slice.Release()
		return nil, fmt.Errorf("%w: read at offset %d: %w", segmentlist.ErrStorage, offset, err)
	}
	return slice, nil
}

// findAborted collects the aborted transactions that overlap the range from offset to the end of
// the slice. It reads transaction indexes starting with the segment that contains offset, and stops
// at the first entry that proves that all transactions in the range have ended (Kafka's
// collectAbortedTransactions).
func (s *Slice) findAborted(list *segmentlist.List, offset, limit int64) error {
	// The slice ends at the first batch after it, or at the end of the segment. A concurrent append
	// can only raise this offset.
	end := s.held.NextOffset()
	if s.cutEnd > 0 {
		end = s.cutEnd
	} else {
		switch next, err := s.held.HeaderAt(s.Position + int64(s.Length)); {
		case err == nil:
			end = next.BaseOffset()
		case !errors.Is(err, io.EOF):
			return err
		}
	}
	end = min(end, limit)
	for _, h := range list.Handles[list.Floor(offset):] {
		complete, err := h.Aborted(offset, end,
			func(a segment.AbortedTxn) { s.Aborted = append(s.Aborted, a) })
		if complete || err != nil {
			return err
		}
	}
	return nil
}

// readFrom does the same as Read, on a list to which the caller holds a reference. The request's
// limit is at most the log end that was loaded before the list.
func (r Reader) readFrom(list *segmentlist.List, request readRequest) (*Slice, error) {
	// The log end is loaded again after the list, because a truncation lowers the log end before it
	// publishes the new list (truncate_files.go).
	offset, limit := request.offset, min(request.limit, r.Offsets.LogEnd())
	slice := &Slice{LogStart: r.Offsets.LogStart(), HighWatermark: r.Offsets.HighWatermark(),
		LastStable: r.Offsets.LastStable()}
	if offset < slice.LogStart || offset > limit {
		return nil, fmt.Errorf("%w: %d is not in [%d, %d]", ErrOffsetOutOfRange, offset,
			slice.LogStart, limit)
	}
	if offset == limit {
		return slice, nil
	}
	first, found, err := firstBatch(list, offset, limit, request.empties)
	if err == nil && found {
		request.sealed = first.Handle != list.Active()
		err = slice.fill(r, first, limit, request)
	}
	if err != nil && r.List.Load() == nil {
		// The log was closed. Its directory may belong to another log, so the read failed to open
		// the files of a frozen segment.
		return nil, segmentlist.ErrClosed
	}
	if err != nil {
		name := segment.Name(list.Handles[list.Floor(offset)].Base(), segment.LogExtension, "")
		return nil, fmt.Errorf("%w: read at offset %d, from %s on: %w", segmentlist.ErrStorage, offset,
			filepath.Join(r.Dir, name), err)
	}
	return slice, nil
}

// firstBatch returns the batch at which a read at offset begins. If there is no such batch below
// limit, found is false. If empties is true, the result may be a batch without records. After
// cleaning, the batch may be in a later segment than the segment whose range contains offset, so
// the search continues to the end of the list.
//
// A batch is below limit only if all its offsets are below limit, because a reader must not receive
// a part of a batch that is not replicated yet.
func firstBatch(list *segmentlist.List, offset, limit int64, empties bool) (first segmentlist.Batch,
	found bool,
	err error) {
	for _, h := range list.Handles[list.Floor(offset):] {
		position, err := h.Position(offset)
		if err != nil {
			return segmentlist.Batch{}, false, err
		}
		for end := int64(-1); ; {
			header, err := h.HeaderAt(position)
			if errors.Is(err, io.EOF) {
				if h.Damaged.Load() && end < h.NextOffset() && offset < h.NextOffset() {
					return segmentlist.Batch{}, false, fmt.Errorf("%w: segment %d lacks batches",
						record.ErrCorrupt, h.Base())
				}
				break // continue with the next segment
			}
			if err != nil {
				return segmentlist.Batch{}, false, err
			}
			end = header.LastOffset() + 1
			if header.LastOffset() >= limit {
				return first, found, nil
			}
			// If no later batch contains a record to return, the last batch without records is
			// returned.
			first, found = segmentlist.Batch{Handle: h, Header: header}, true
			if empties {
				return first, true, nil
			}
			if holds, err := holdsFrom(h, header, offset); holds || err != nil {
				return first, true, err
			}
			position += int64(header.SizeBytes)
		}
	}
	return first, found, nil
}

// holdsFrom reports whether a batch whose last offset is at or above offset contains a record at or
// above offset. It decompresses only a cleaned batch that begins below offset, and only as far as
// the first such record.
func holdsFrom(h *segmentlist.Handle, header segment.Header, offset int64) (bool, error) {
	switch {
	case header.Count() == 0:
		return false, nil
	case header.BaseOffset() >= offset, header.Count() == header.LastOffsetDelta()+1:
		return true, nil
	}
	for r, err := range (segmentlist.Batch{Handle: h, Header: header}).Records() {
		switch {
		case errors.Is(err, record.ErrCorrupt), errors.Is(err, compress.ErrTooLarge):
			// The batch is damaged or too large to decompress. The client receives it unchanged and
			// reports the error itself.
			return true, nil
		case err != nil:
			return false, err
		case r.Offset >= offset:
			return true, nil
		}
	}
	return false, nil
}

// fill sets the slice to the batches that begin with first, are below the offset limit and together
// have at most bytesMax bytes. All of these batches are in one segment, because a response is sent
// from one file. fill acquires a reference to the segment for the slice, because the caller may
// release the segment list before the slice.
func (s *Slice) fill(r Reader, first segmentlist.Batch, limit int64, request readRequest) error {
	size, bytesMax := first.Header.SizeBytes, request.bytesMax
	if size > bytesMax {
		if !request.wholeFirst {
			s.More = true
			return nil
		}
		bytesMax = size
	}
	end, truncated, err := rangeEnd(first, limit, int64(bytesMax))
	if err != nil {
		return err
	}
	whole, cutEnd, err := r.undamagedEnd(first, end, request.sealed)
	if err != nil {
		return err
	}
	if whole < end {
		end, truncated, s.cutEnd = whole, true, cutEnd
	}
	file, err := first.Handle.File().Pin()
	if err != nil {
		return err
	}
	s.More = truncated || first.Handle.NextOffset() < limit
	first.Handle.Acquire()
	s.held = first.Handle
	s.File = file
	s.Position = first.Header.Position
	s.Length = int(end - first.Header.Position)
	return nil
}

// rangeEnd returns the end position of the last complete batch below limit, at most bytesMax after
// the position of the first batch. truncated is true if bytesMax ended the range.
func rangeEnd(first segmentlist.Batch, limit, bytesMax int64) (end int64, truncated bool,
	err error) {
	end, err = first.Handle.Position(limit)
	if err != nil {
		return 0, false, err
	}
	if begin := first.Header.Position; end-begin > bytesMax {
		end, err = first.Handle.Boundary(begin + bytesMax)
		return end, true, err
	}
	return end, false, nil
}

// undamagedEnd returns the end of the batches from first on, at most the position end, that a read
// may return, and the offset at which they end. If they have to be verified, they end before the
// first damaged batch. It fails if this is the first one.
func (r Reader) undamagedEnd(first segmentlist.Batch, end int64, sealed bool) (whole,
	offset int64, err error) {
	h := first.Handle
	if !h.Damaged.Load() && !r.verifies(h, end, sealed) {
		return end, 0, nil
	}
	whole, offset, err = verify(first, end)
	if err == nil && whole == end {
		h.Verified(first.Header.Position, end)
		return end, offset, nil
	}
	if !h.Damaged.Swap(true) && r.Damaged != nil {
		r.Damaged(h)
	}
	return whole, offset, err
}

// verifies reports whether a read up to the position end of a segment verifies batches.
func (r Reader) verifies(h *segmentlist.Handle, end int64, sealed bool) bool {
	if r.Verification == nil {
		return false
	}
	switch Verification(r.Verification.Load()) {
	case VerifyOnce:
		return end > h.VerifiedEnd()
	case VerifyAlways:
		return sealed || end > h.VerifiedEnd()
	}
	return false
}

// verify returns the end of the batches from first on, at most the position end, whose checksums
// are correct and whose offsets ascend, and the offset at which they end. It fails if the first one
// is damaged or cannot be read. The checksum does not cover the base offset and the leader epoch of
// a batch: the scrub compares them with the key sidecar and the neighbours of the batch.
func verify(first segmentlist.Batch, end int64) (whole, offset int64, err error) {
	for batch := first; ; {
		if err := batch.CheckCRC(); err != nil {
			if batch.Header.Position > first.Header.Position {
				return batch.Header.Position, offset, nil
			}
			return 0, 0, err
		}
		offset = batch.Header.LastOffset() + 1
		next := batch.Header.Position + int64(batch.Header.SizeBytes)
		if next >= end {
			return end, offset, nil
		}
		if batch.Header, err = batch.Handle.HeaderAt(next); err != nil ||
			batch.Header.BaseOffset() < offset {
			return next, offset, nil //nolint:nilerr // a read that begins there returns the error
		}
	}
}
