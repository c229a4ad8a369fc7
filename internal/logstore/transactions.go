package logstore

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
)

type ( // arguments of AppendVerified and AppendControl, see package producer
	Verified = producer.Verified
	EndTxn   = producer.EndTxn
)

// AppendControl appends the marker that ends a producer's transaction, whether one is open here or
// not: the coordinator cannot know whether any data got here before the transaction ended, and
// repeats a marker until it is acknowledged.
//
// It fails with ErrInvalidProducerEpoch and ErrCoordinatorFenced for markers of the past, and else
// as Append does.
func (l *Log) AppendControl(end EndTxn, now time.Time) (Appended, error) {
	config := l.config.Load()
	marker := record.Control{Type: record.ControlAbort, CoordinatorEpoch: end.CoordinatorEpoch}
	if end.Commit {
		marker.Type = record.ControlCommit
	}
	id := record.Identity{ProducerID: end.ProducerID, ProducerEpoch: end.ProducerEpoch,
		TimestampType: config.settings.TimestampType}
	if end.ProducerID < 0 || end.ProducerEpoch < 0 {
		return Appended{}, fmt.Errorf("%w: producer %d, epoch %d", record.ErrInvalidRecord,
			end.ProducerID, end.ProducerEpoch)
	}
	content, err := record.AppendMarker(nil, id, now.UnixMilli(), marker)
	if err != nil {
		return Appended{}, err
	}
	b := record.Batch(content)
	err = l.appending(now, func() error {
		if err := l.mu.producers.CheckMarker(end); err != nil {
			return err
		}
		if err := l.writeLocked(record.Whole(b), config, now); err != nil {
			return err
		}
		if salt := l.compaction.sidecars.salt.Load(); salt != nil && config.settings.Compact {
			l.compaction.sidecars.spools.appendMarkerLocked(l.list.Load().active(), *salt, b)
		}
		return nil
	})
	if err != nil {
		return Appended{}, err
	}
	l.unsynced.Add(int64(len(b)))
	l.appended(config)
	return l.answer(b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), false), nil
}

// stability is what the last stable offset is made of, besides the log start: what consumers of
// committed data may see must be decided (below undecided), and the decision must not be lost any
// more (its marker below the high watermark).
//
// Its mutex is held for moments only, never over I/O, so that whoever asks for an offset need not
// wait for an append that waits for the disk. It comes behind Log.mu.
type stability struct {
	sync.Mutex
	// undecided is where the oldest open transaction begins, math.MaxInt64 if none is open.
	undecided int64
	// decided are transactions whose marker was not below the high watermark when it was last
	// looked at. Both offsets ascend: one that begins no later than those before it, and ends
	// behind them, stands for them too.
	decided []decidedTxn
}

// decidedTxn is a transaction that was ended, by a marker that may not be replicated yet.
type decidedTxn struct {
	first int64 // of its first batch
	last  int64 // of the marker
}

// end notes that a transaction was decided. stability is locked.
func (s *stability) end(first, last, highWatermark int64) {
	s.forget(highWatermark)
	kept := len(s.decided)
	for kept > 0 && s.decided[kept-1].first >= first {
		kept--
	}
	s.decided = append(s.decided[:kept], decidedTxn{first, last})
}

// forget drops the transactions whose markers are below the high watermark. stability is locked.
func (s *stability) forget(highWatermark int64) {
	// By last, which ascends.
	n, _ := slices.BinarySearchFunc(s.decided, highWatermark,
		func(d decidedTxn, o int64) int { return cmp.Compare(d.last, o) })
	s.decided = slices.Delete(s.decided, 0, n)
}

// below returns the end of what is stable, at most the high watermark. stability is locked.
func (s *stability) below(highWatermark int64) int64 {
	stable := min(highWatermark, s.undecided)
	n, _ := slices.BinarySearchFunc(s.decided, highWatermark,
		func(d decidedTxn, o int64) int { return cmp.Compare(d.last, o) })
	if n < len(s.decided) {
		stable = min(stable, s.decided[n].first) // the first of those that are left begins first
	}
	return stable
}

// settle follows a change of the producer state. ended is the transaction that the change ended, nil
// if it ended none. Log.mu is held, and the log end is stored afterwards: so the high watermark
// cannot pass the first batch of a transaction before undecided includes it.
func (s *stability) settle(state *producer.State, ended *producer.EndedTxn, highWatermark int64) {
	s.Lock()
	defer s.Unlock()
	s.undecided = state.Undecided()
	if ended != nil {
		s.end(ended.FirstOffset, ended.LastOffset, highWatermark)
	}
}

// truncate removes the decisions at or above end: those transactions are open again, or removed.
// stability is locked.
func (s *stability) truncate(state *producer.State, end int64) {
	s.decided = slices.DeleteFunc(s.decided, func(d decidedTxn) bool { return d.last >= end })
	s.undecided = state.Undecided()
}

// LastStable is the end of what consumers that read committed data may see: the high watermark, or
// where the first transaction begins that is open, or whose marker is not below the high watermark.
// It is never below the log start, though DeleteBefore may have passed the beginning of an open
// transaction. It takes a mutex that is never held over I/O.
func (l *Log) LastStable() int64 {
	// The log start first: it is at most the high watermark that is read behind it.
	logStart := l.logStart.Load()
	l.stable.Lock()
	defer l.stable.Unlock()
	return max(logStart, l.stable.below(l.highWatermark.Load()))
}

// HasOpenTransaction tells whether a producer has a transaction open in this log, in this epoch:
// then its next batch needs no verification (KIP-890).
func (l *Log) HasOpenTransaction(producerID int64, producerEpoch int16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.producers.HasOpen(producerID, producerEpoch)
}
