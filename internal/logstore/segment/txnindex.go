package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"heartwood.dev/heartwood/internal/vfs"
)

// The transaction index: which transactions that end in this segment were aborted
// (docs/format/txnindex.md). The file is there only if there are any.
const (
	TxnIndexExtension = ".txnindex"
	AbortedTxnBytes   = 34
	txnIndexVersion   = 0
)

// AbortedTxn is an entry of the transaction index. It stands in the segment of the marker, whatever
// segments hold the data.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64 // of the transaction's first batch
	LastOffset  int64 // of the marker
	// what was decided when the marker was written: no transaction that ends later begins below it
	LastStable int64
}

// ParseAbortedTxn reads an entry; b holds at least AbortedTxnBytes. It fails for a version it does
// not know.
func ParseAbortedTxn(b []byte) (AbortedTxn, error) {
	if version := binary.BigEndian.Uint16(b); version != txnIndexVersion {
		return AbortedTxn{}, fmt.Errorf("%w: version %d of an aborted transaction", errIndex,
			version)
	}
	return parseAborted(b), nil
}

// parseAborted is ParseAbortedTxn of an entry whose version was checked, when the file was opened.
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

// follows tells whether an entry may stand behind another one: markers ascend, and what is decided
// never falls.
func (a AbortedTxn) follows(before AbortedTxn) bool {
	return a.LastOffset > before.LastOffset && a.LastStable >= before.LastStable
}

// sound tells whether an entry can be one of a segment that holds [base, next).
func (a AbortedTxn) sound(base, next int64) bool {
	return a.ProducerID >= 0 && a.FirstOffset >= 0 && a.FirstOffset < a.LastOffset &&
		a.LastOffset >= base && a.LastOffset < next &&
		a.LastStable >= 0 && a.LastStable <= a.LastOffset+1
}

// AddAborted adds an entry for a marker that is in the segment. It is kept in memory until Sync or
// Seal write it, as the entries of the other indexes are: so an append that has written its batch
// cannot fail behind that, and be repeated at an offset that is taken (KAFKA-7866, KAFKA-10778). It
// fails for an entry that does not ascend, or lies outside the segment, which is a bug.
func (s *Segment) AddAborted(a AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken != nil {
		return s.mu.broken
	}
	next := *s.view.Load()
	if next.aborted.count() > 0 && !a.follows(next.aborted.last) ||
		!a.sound(s.base, max(next.next, a.LastOffset+1)) {
		return fmt.Errorf("add aborted transaction to segment %d: %+v after %+v", s.base, a,
			next.aborted.last)
	}
	next.aborted = next.aborted.with(a)
	s.view.Store(&next)
	return nil
}

// AbortedCount returns how many entries the transaction index has.
func (s *Segment) AbortedCount() int { return s.view.Load().aborted.count() }

// abortedBlock is how many entries a walk over the transaction index reads at once.
const abortedBlock = 512

// Aborted visits the aborted transactions that a reader of [from, below) must know, of those that
// end in this segment: the marker lies at or above from, and the first batch below below. complete
// is true if no later segment can hold more. What is decided never falls along the entries, so the
// walk may end at the first entry by which all below was decided (reference 2.1).
func (s *Segment) Aborted(from, below int64, visit func(AbortedTxn)) (complete bool, err error) {
	e := s.view.Load().aborted
	// The file is looked at only by a view that needs it: that one was stored behind the file,
	// others may be older than it.
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

// openTxnIndex takes the entries of the transaction index into a view, if there is a file. Each of
// them is looked at: a reader that is not told of an aborted transaction takes its records for
// committed ones. What does not hold is as a missing file, and TxnIndexDamaged tells: the entries
// cannot be made from this segment alone, since the transactions may begin before it.
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
		return all, fmt.Errorf("%w: %d bytes are no whole number of aborted transactions", errIndex,
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
			if !a.sound(s.base, v.next) || all.written > 0 && !a.follows(all.last) {
				return all, fmt.Errorf("%w: aborted transaction %+v after %+v", errIndex, a,
					all.last)
			}
			all.written, all.last = all.written+1, a
		}
	}
	return all, nil
}

// TxnIndexDamaged tells why the entries that Open found are not to be believed; nil if they are.
// ResetAborted takes it back.
func (s *Segment) TxnIndexDamaged() error { return s.txnDamage }

// ResetAborted replaces all entries of the transaction index, when they were made anew from the
// log. Like AddAborted's they are written by Sync or Seal; until then the file on disk is empty,
// and a start above the recovery point makes them again. It must not run beside reads of the index:
// recovery has the segment to itself.
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

// flushAbortedLocked writes the entries that are in memory only, and makes the file with the first
// of them.
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
		s.mu.named = false // the new name is durable with the next sync of the directory
	}
	return s.txns.flush(e)
}

// cutAbortedLocked cuts off the entries whose markers lie at or above offset.
func (s *Segment) cutAbortedLocked(before entries[AbortedTxn], offset int64) (entries[AbortedTxn],
	error) {
	n, err := s.txns.prefix(before, func(a AbortedTxn) bool { return a.LastOffset < offset })
	if err != nil {
		return before, err
	}
	return s.txns.first(before, n)
}
