package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"heartwood.dev/heartwood/internal/vfs"
)

// The transaction index lists the aborted transactions whose abort marker is in this segment
// (docs/internals/format/txnindex.md). The file exists only if there are aborted transactions.
const (
	TxnIndexExtension = ".txnindex"
	AbortedTxnBytes   = 34
	txnIndexVersion   = 0
)

// AbortedTxn is an entry of the transaction index. The entry is in the index of the segment that
// contains the abort marker, even if other segments contain the transaction's data.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // offset of the transaction's first batch
	LastOffset  int64 // offset of the abort marker
	// LastStable is the last stable offset at the time when the marker was written. A transaction
	// that ends after this transaction begins at or above LastStable.
	LastStable int64
}

// ParseAbortedTxn decodes an entry from the first AbortedTxnBytes bytes of b. It fails if the
// version is unknown.
func ParseAbortedTxn(b []byte) (AbortedTxn, error) {
	if version := binary.BigEndian.Uint16(b); version != txnIndexVersion {
		return AbortedTxn{}, fmt.Errorf("%w: version %d of an aborted transaction", errIndex,
			version)
	}
	return parseAborted(b), nil
}

// parseAborted is like ParseAbortedTxn, but does not check the version, which Open has already
// checked.
func parseAborted(b []byte) AbortedTxn {
	return AbortedTxn{
		ProducerID:  int64(binary.BigEndian.Uint64(b[2:])),
		FirstOffset: int64(binary.BigEndian.Uint64(b[10:])),
		LastOffset:  int64(binary.BigEndian.Uint64(b[18:])),
		LastStable:  int64(binary.BigEndian.Uint64(b[26:])),
	}
}

func appendAborted(dst []byte, a AbortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, txnIndexVersion)
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.FirstOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.LastOffset))
	return binary.BigEndian.AppendUint64(dst, uint64(a.LastStable))
}

func txnIndex(file *vfs.Handle) index[AbortedTxn] {
	return index[AbortedTxn]{file, AbortedTxnBytes, parseAborted, appendAborted}
}

// follows reports whether entry a can follow the entry before in the index: the offsets of the
// markers ascend, and the last stable offset does not decrease.
func (a AbortedTxn) follows(before AbortedTxn) bool {
	return a.LastOffset > before.LastOffset && a.LastStable >= before.LastStable
}

// valid reports whether the entry can belong to a segment with the offsets [base, next).
func (a AbortedTxn) valid(base, next int64) bool {
	return a.ProducerID >= 0 && a.FirstOffset >= 0 && a.FirstOffset < a.LastOffset &&
		a.LastOffset >= base && a.LastOffset < next &&
		a.LastStable >= 0 && a.LastStable <= a.LastOffset+1
}

// AddAborted adds an entry for an abort marker in the segment. Like entries of the other indexes,
// the entry stays in memory until Sync or Seal writes it. If the entry was written at once, an
// append could fail after its batch was written, and then be retried at an offset that is already
// used (KAFKA-7866, KAFKA-10778). AddAborted fails if the entry does not ascend or is outside the
// segment, which is a bug of the caller.
func (s *Segment) AddAborted(a AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil {
		return s.mu.broken
	}
	next := *s.view.Load()
	if next.aborted.count() > 0 && !a.follows(next.aborted.last) ||
		!a.valid(s.base, max(next.next, a.LastOffset+1)) {
		return fmt.Errorf("add aborted transaction to segment %d: %+v after %+v", s.base, a,
			next.aborted.last)
	}
	next.aborted = next.aborted.with(a)
	s.view.Store(&next)
	return nil
}

// AbortedCount returns the number of entries in the transaction index.
func (s *Segment) AbortedCount() int { return s.view.Load().aborted.count() }

// abortedBlock is the number of entries that a walk over the transaction index reads at once.
const abortedBlock = 512

// Aborted calls visit for each aborted transaction in this segment that a reader of the offsets
// [from, below) needs. Such a transaction has its marker at or above the start of the range, and
// its first batch below the end of the range. complete is true if no later segment contains such a
// transaction. The last stable offset does not decrease from entry to entry. So the walk ends at
// the first entry whose last stable offset is at or above the end of the range
// (docs/internals/format/txnindex.md).
func (s *Segment) Aborted(from, below int64, visit func(AbortedTxn)) (complete bool, err error) {
	e := s.view.Load().aborted
	// Use s.txns only if this view has written entries. In this case the file was set before the
	// view was stored. An older view has no written entries, and the file may be set concurrently.
	txns := txnIndex(nil)
	if e.written > 0 {
		txns = s.txns
	}
	start, err := txns.prefix(e, func(a AbortedTxn) bool { return a.LastOffset < from })
	if err != nil {
		return false, fmt.Errorf("read transaction index of segment %d: %w", s.base, err)
	}
	for start < e.count() {
		block := e.tail[max(0, start-e.written):]
		if start < e.written {
			if block, err = txns.read(start, min(e.written, start+abortedBlock)); err != nil {
				return false, fmt.Errorf("read transaction index of segment %d: %w", s.base, err)
			}
		}
		for _, a := range block {
			if a.FirstOffset < below {
				visit(a)
			}
			if a.LastStable >= below {
				return true, nil
			}
		}
		start += len(block)
	}
	return false, nil
}

// openTxnIndex adds the entries in the transaction index, if the file exists, to a view. It
// validates every entry: if an entry was lost, readers would treat the records of an aborted
// transaction as committed. If the file is invalid, openTxnIndex ignores the file, and
// TxnIndexDamaged reports this. The segment cannot rebuild the entries itself, because the
// transactions may begin in earlier segments.
func (s *Segment) openTxnIndex(v *view) error {
	file, err := s.cfg.Handles.OpenReadWrite(s.pathLocked(TxnIndexExtension))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	s.txns.file = file
	v.aborted, err = s.loadAborted(v)
	if errors.Is(err, errIndex) {
		s.txnDamage, err = err, nil
		v.aborted = entries[AbortedTxn]{}
	}
	return err
}

// loadAborted reads and checks a whole transaction index.
func (s *Segment) loadAborted(v *view) (all entries[AbortedTxn], err error) {
	size, err := s.txns.file.Size()
	if err != nil {
		return all, err
	}
	if size%AbortedTxnBytes != 0 {
		return all, fmt.Errorf("%w: the size of the transaction index, %d bytes, is not a multiple of the entry size", errIndex,
			size)
	}
	count := int(size / AbortedTxnBytes)
	block := make([]byte, 0, min(count, abortedBlock)*AbortedTxnBytes)
	for all.written < count {
		block = block[:min(count-all.written, abortedBlock)*AbortedTxnBytes]
		if n, err := s.txns.file.ReadAt(block, int64(all.written)*AbortedTxnBytes); n < len(block) {
			return all, fmt.Errorf("read transaction index: %w", noEOF(err))
		}
		for raw := range slices.Chunk(block, AbortedTxnBytes) {
			a, err := ParseAbortedTxn(raw)
			if err != nil {
				return all, err
			}
			if !a.valid(s.base, v.next) || all.written > 0 && !a.follows(all.last) {
				return all, fmt.Errorf("%w: aborted transaction %+v after %+v", errIndex, a,
					all.last)
			}
			all.written, all.last = all.written+1, a
		}
	}
	return all, nil
}

// TxnIndexDamaged returns the reason why Open has rejected the transaction index, or nil if Open
// has accepted it. ResetAborted clears the reason.
func (s *Segment) TxnIndexDamaged() error { return s.txnDamage }

// ResetAborted replaces all entries of the transaction index by entries that the log has rebuilt.
// Sync or Seal writes the new entries. Until then the file is empty, and if the process stops, the
// next start rebuilds the entries again. ResetAborted must not run concurrently with reads of the
// index.
func (s *Segment) ResetAborted(all []AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.view.Load()
	next.aborted = entries[AbortedTxn]{}
	for _, a := range all {
		next.aborted = next.aborted.with(a)
	}
	if s.txns.file != nil {
		if err := s.txns.trim(entries[AbortedTxn]{}); err != nil {
			return err
		}
		s.mu.indexed = true
	}
	s.txnDamage = nil
	s.view.Store(&next)
	return nil
}

// flushAbortedLocked writes the entries that are only in memory. It creates the file if the file
// does not exist.
func (s *Segment) flushAbortedLocked(e entries[AbortedTxn]) (entries[AbortedTxn], error) {
	if len(e.tail) == 0 {
		return e, nil
	}
	if s.txns.file == nil {
		file, err := s.cfg.Handles.Create(s.pathLocked(TxnIndexExtension))
		if err != nil {
			return e, fmt.Errorf("create transaction index: %w", err)
		}
		s.txns.file = file
		s.mu.named = false // the new name is not durable until the directory is synced
	}
	return s.txns.flush(e)
}

// truncatedAborted returns the entries whose markers are below offset.
func (s *Segment) truncatedAborted(before entries[AbortedTxn], offset int64) (entries[AbortedTxn],
	error) {
	n, err := s.txns.prefix(before, func(a AbortedTxn) bool { return a.LastOffset < offset })
	if err != nil {
		return before, err
	}
	return s.txns.first(before, n)
}
