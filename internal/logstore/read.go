package logstore

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// Slice is a range of complete batches in one data file. It keeps the segment's files open until
// Release.
type Slice struct {
	// File is the pinned data file, which stays open until Release; nil if Length is 0.
	File          vfs.File
	Position      int64 // of the first batch in File
	Length        int   // bytes, complete batches; 0: nothing to return
	LogStart      int64
	HighWatermark int64 // as of the Read, like LogStart and LastStable
	LastStable    int64
	// More: batches below the limit follow that are not in the slice, because of bytesMax or the
	// end of the file.
	More bool
	// Aborted are the aborted transactions that a reader of the slice must skip, when ReadCommitted
	// returned it: of each producer's transactional batches those from FirstOffset up to
	// LastOffset, which is the marker. Some may have no batch in the slice.
	Aborted []segment.AbortedTxn

	held *handle
}

// Release must be called once for each Slice that a read returned without an error.
func (s *Slice) Release() {
	if s.held != nil {
		s.held.File().Unpin()
		s.held.release()
		s.held = nil
	}
}

// Read returns complete batches, from the one that holds offset on, below the offset limit, and at
// most bytesMax bytes of them; with wholeFirst always the first batch. It fails with
// ErrOffsetOutOfRange outside [LogStart, limit], where a limit above LogEnd is lowered to LogEnd;
// with ErrStorage if the disk fails, which does not stop the log; with ErrClosed. At limit it
// returns an empty slice. It acquires no lock.
//
// A first batch that has no record >= offset left, because of cleaning, is skipped if a later one
// can be returned: clients that count records would request the same offset forever.
func (l *Log) Read(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	// The log end is loaded before the list, so the list holds all batches below it even if the log
	// rolls meanwhile.
	limit = min(limit, l.logEnd.Load())
	list := l.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	return l.readFrom(list, readRequest{offset: offset, limit: limit, bytesMax: bytesMax,
		wholeFirst: wholeFirst})
}

// ReadReplica reads for another replica: it returns batches up to the log end, also those that have
// no record left. Such batches hold the sequence numbers of producers, and a replica without them
// would accept a repeated batch as a new one.
func (l *Log) ReadReplica(offset int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	limit := l.logEnd.Load() // before the list, as in Read
	list := l.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	return l.readFrom(list, readRequest{offset: offset, limit: limit, bytesMax: bytesMax,
		wholeFirst: wholeFirst, empties: true})
}

// readRequest holds the parameters of a read.
type readRequest struct {
	offset, limit int64
	bytesMax      int
	wholeFirst    bool // return the first batch even if it is larger than bytesMax
	empties       bool // a first batch without a record at or above offset is returned too
}

// ReadCommitted reads for consumers with read_committed: it returns batches below the last stable
// offset, and the aborted transactions.
func (l *Log) ReadCommitted(offset, limit int64, bytesMax int, wholeFirst bool) (*Slice, error) {
	// The last stable offset is loaded before the list, as in Read, so the list holds the markers
	// of the transactions decided below the limit.
	limit = min(limit, l.LastStable())
	list := l.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	slice, err := l.readFrom(list,
		readRequest{offset: offset, limit: limit, bytesMax: bytesMax, wholeFirst: wholeFirst})
	if err != nil || slice.Length == 0 {
		return slice, err
	}
	if err := slice.findAborted(list, offset, limit); err != nil {
		slice.Release()
		return nil, fmt.Errorf("%w: read at offset %d: %w", ErrStorage, offset, err)
	}
	return slice, nil
}

// findAborted collects the aborted transactions that overlap [offset, end of the slice), from the
// segment that holds offset to the first index entry which shows that every transaction in the
// range is decided (Kafka's collectAbortedTransactions).
func (s *Slice) findAborted(list *segmentList, offset, limit int64) error {
	// The end is where the next batch begins, or the end of the segment. A concurrent append only
	// raises it.
	end := s.held.NextOffset()
	switch next, err := s.held.HeaderAt(s.Position + int64(s.Length)); {
	case err == nil:
		end = next.BaseOffset()
	case !errors.Is(err, io.EOF):
		return err
	}
	end = min(end, limit)
	for _, h := range list.handles[list.floor(offset):] {
		complete, err := h.Aborted(offset, end,
			func(a segment.AbortedTxn) { s.Aborted = append(s.Aborted, a) })
		if complete || err != nil {
			return err
		}
	}
	return nil
}

// readFrom does the same as Read, on a list that the caller holds. r.limit is at most the log end
// from before the list was loaded.
func (l *Log) readFrom(list *segmentList, r readRequest) (*Slice, error) {
	// The log end is loaded again after the list: a truncation lowers the log end before it
	// publishes the new list (truncate_files.go).
	offset, limit := r.offset, min(r.limit, l.logEnd.Load())
	slice := &Slice{LogStart: l.LogStart(), HighWatermark: l.HighWatermark(),
		LastStable: l.LastStable()}
	if offset < slice.LogStart || offset > limit {
		return nil, fmt.Errorf("%w: %d is not in [%d, %d]", ErrOffsetOutOfRange, offset,
			slice.LogStart, limit)
	}
	if offset == limit {
		return slice, nil
	}
	first, found, err := list.firstBatch(offset, limit, r.empties)
	if err == nil && found {
		err = slice.fill(first, limit, r.bytesMax, r.wholeFirst)
	}
	if err != nil && l.list.Load() == nil {
		// the log is closed: its directory may belong to another log, so its files must not be
		// opened any more
		return nil, ErrClosed
	}
	if err != nil {
		name := segment.Name(list.handles[list.floor(offset)].Base(), segment.LogExtension, "")
		return nil, fmt.Errorf("%w: read at offset %d, from %s on: %w", ErrStorage, offset,
			filepath.Join(l.dir, name), err)
	}
	return slice, nil
}

// batchAt is a batch in a segment.
type batchAt struct {
	handle *handle
	header segment.Header
}

// firstBatch returns the batch at which a read at offset begins; found is false if there is none
// below limit. With empties the first batch is returned even if it has no records. After cleaning,
// the batch may be in a later segment than the one whose range holds offset, so the search
// continues to the end of the list. A batch is below limit only if all of it is: a reader must not
// see a part of a batch that is not replicated yet.
func (s *segmentList) firstBatch(offset, limit int64, empties bool) (first batchAt, found bool,
	err error) {
	for _, h := range s.handles[s.floor(offset):] {
		position, err := h.Position(offset)
		if err != nil {
			return batchAt{}, false, err
		}
		for {
			header, err := h.HeaderAt(position)
			if errors.Is(err, io.EOF) {
				break // the next segment
			}
			if err != nil {
				return batchAt{}, false, err
			}
			if header.LastOffset() >= limit {
				return first, found, nil
			}
			// A batch without a record to return is remembered in case no other follows.
			first, found = batchAt{h, header}, true
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

// holdsFrom reports whether a batch whose last offset is >= offset has a record at or above offset.
// Only a cleaned batch that begins below offset has to be decompressed, until the first such record
// is found.
func holdsFrom(h *handle, header segment.Header, offset int64) (bool, error) {
	switch {
	case header.Count() == 0:
		return false, nil
	case header.BaseOffset() >= offset, header.Count() == header.LastOffsetDelta()+1:
		return true, nil
	}
	for r, err := range (batchAt{h, header}).records() {
		switch {
		case errors.Is(err, record.ErrCorrupt), errors.Is(err, compress.ErrTooLarge):
			// the batch is damaged or huge: the client gets it unchanged, and reports the error
			// itself
			return true, nil
		case err != nil:
			return false, err
		case r.Offset >= offset:
			return true, nil
		}
	}
	return false, nil
}

// fill sets the slice to the batches from first on that are below limit and fit in bytesMax. All
// are in one segment, because a response is sent from one file. fill acquires a reference to the
// segment for the slice, because the segment list may be released before the slice.
func (s *Slice) fill(first batchAt, limit int64, bytesMax int, wholeFirst bool) error {
	size := first.header.SizeBytes
	if size > bytesMax {
		if !wholeFirst {
			s.More = true
			return nil
		}
		bytesMax = size
	}
	end, truncated, err := rangeEnd(first, limit, int64(bytesMax))
	if err != nil {
		return err
	}
	file, err := first.handle.File().Pin()
	if err != nil {
		return err
	}
	s.More = truncated || first.handle.NextOffset() < limit
	first.handle.acquire()
	s.held = first.handle
	s.File = file
	s.Position = first.header.Position
	s.Length = int(end - first.header.Position)
	return nil
}

// rangeEnd returns the end of the last complete batch that is below limit and within bytesMax of
// the first; truncated is true if bytesMax ended the range.
func rangeEnd(first batchAt, limit, bytesMax int64) (end int64, truncated bool, err error) {
	end, err = first.handle.Position(limit)
	if err != nil {
		return 0, false, err
	}
	if begin := first.header.Position; end-begin > bytesMax {
		end, err = first.handle.Boundary(begin + bytesMax)
		return end, true, err
	}
	return end, false, nil
}
