package offsets

import (
	"cmp"
	"slices"
	"sync"

	"heartwood.dev/heartwood/internal/logstore/producer"
)

// stability is the state from which, together with the log start and the high watermark, the last
// stable offset is computed. A read_committed consumer may read a record only under two conditions:
// the record's transaction has ended (the record is below undecided), and the transaction's marker
// is final (the marker is below the high watermark).
//
// The mutex is never held during I/O, so a reader of the last stable offset does not wait for an
// append that waits for the disk. The mutex is acquired after the lock of the log.
type stability struct {
	sync.Mutex
	// undecided is the first offset of the oldest open transaction, or math.MaxInt64 if no
	// transaction is open.
	undecided int64
	// decided contains the ended transactions whose marker was at or above the high watermark at
	// the last change. They are sorted by first offset and by marker offset. A new element replaces
	// the earlier elements that begin at or after its first offset: the new transaction ends after
	// them, and limits the last stable offset at least as much.
	decided []decidedTxn
	// open is the number of open transactions, and oldest is the open transaction with the lowest
	// first offset. They are for metrics, which must not wait for the disk either.
	open   int
	oldest producer.Transaction
}

// decidedTxn is a transaction whose marker may not be replicated yet.
type decidedTxn struct {
	first int64 // offset of the transaction's first batch
	last  int64 // offset of the marker
}

// end adds a transaction that has ended. The caller holds the mutex.
func (s *stability) end(first, last, highWatermark int64) {
	s.forget(highWatermark)
	kept := len(s.decided)
	for kept > 0 && s.decided[kept-1].first >= first {
		kept--
	}
	s.decided = append(s.decided[:kept], decidedTxn{first, last})
}

// forget removes the transactions whose markers are below the high watermark. The caller holds the
// mutex.
func (s *stability) forget(highWatermark int64) {
	n, _ := slices.BinarySearchFunc(s.decided, highWatermark,
		func(d decidedTxn, o int64) int { return cmp.Compare(d.last, o) })
	s.decided = slices.Delete(s.decided, 0, n)
}

// below returns the last stable offset, at most the high watermark. The caller holds the mutex.
func (s *stability) below(highWatermark int64) int64 {
	stable := min(highWatermark, s.undecided)
	n, _ := slices.BinarySearchFunc(s.decided, highWatermark,
		func(d decidedTxn, o int64) int { return cmp.Compare(d.last, o) })
	if n < len(s.decided) {
		// Of the remaining transactions, this one has the lowest first offset.
		stable = min(stable, s.decided[n].first)
	}
	return stable
}

// truncate removes the transactions whose marker is at or above the offset end. The truncation has
// removed these markers, so each of these transactions is open again, or was removed as a whole.
// The caller holds the mutex.
func (s *stability) truncate(state *producer.State, end int64) {
	s.decided = slices.DeleteFunc(s.decided, func(d decidedTxn) bool { return d.last >= end })
	s.setOpen(state)
}

// setOpen copies the information about open transactions from the producer state. The caller holds
// the mutex.
func (s *stability) setOpen(state *producer.State) {
	s.undecided = state.Undecided()
	s.open, s.oldest = state.Open()
}
