package clean

import (
	"cmp"
	"math"
	"slices"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// epochStart is the start offset of a leader epoch.
type epochStart struct {
	epoch int32
	start int64
}

// epochAt returns the leader epoch of an offset.
func (l *fakeLog) epochAt(offset int64) int32 {
	for _, e := range slices.Backward(l.epochs) {
		if e.start <= offset {
			return e.epoch
		}
	}
	return -1
}

// lead starts a new leader epoch. It never reuses an epoch, even an epoch that a truncation has
// removed from the log, because .dead files use the epochs as their lineage (F4).
func (l *fakeLog) lead() {
	l.epochMax++
	l.epochs = append(l.epochs, epochStart{l.epochMax, l.next})
}

// txn appends a batch to a producer's open transaction, or starts a transaction with the batch.
func (l *fakeLog) txn(producer int64, codec compress.Codec, records ...string) {
	l.t.Helper()
	if _, open := l.open[producer]; !open {
		l.open[producer] = l.next
	}
	l.batch(codec, record.Identity{ProducerID: producer, Transactional: true}, records...)
}

// end ends a producer's transaction with a marker.
func (l *fakeLog) end(producer int64, commit bool) {
	l.t.Helper()
	first, open := l.open[producer]
	delete(l.open, producer)
	marker := record.Control{Type: record.ControlAbort}
	if commit {
		marker.Type = record.ControlCommit
	}
	id := record.Identity{BaseOffset: l.next, ProducerID: producer, BaseSequence: -1,
		LeaderEpoch: l.epochAt(l.next)}
	batch, err := record.AppendMarker(nil, id, l.now.UnixMilli(), marker)
	l.must(err)
	position := l.next
	l.appendRaw(batch)
	if open && !commit {
		l.must(l.active().AddAborted(segment.AbortedTxn{ProducerID: producer, FirstOffset: first,
			LastOffset: position, LastStable: l.lastStable()}))
	}
}

// lastStable returns the last stable offset: the first offset of the earliest open transaction, or
// the log end offset.
func (l *fakeLog) lastStable() int64 {
	stable := l.next
	for _, first := range l.open {
		stable = min(stable, first)
	}
	return stable
}

// bound returns the base offset of the first segment that may not be cleaned, and its index.
func (l *fakeLog) bound() (int64, int) {
	stable := l.lastStable()
	for i := range l.segments {
		if i == len(l.segments)-1 || l.segments[i+1].Base() > stable {
			return l.segments[i].Base(), i
		}
	}
	panic("no active segment")
}

// aborted returns the entries of the transaction indexes.
func (l *fakeLog) aborted() (all []segment.AbortedTxn) {
	l.t.Helper()
	for _, s := range l.segments {
		_, err := s.Aborted(0, math.MaxInt64, func(a segment.AbortedTxn) { all = append(all, a) })
		l.must(err)
	}
	return all
}

// abortedAcross returns the aborted transactions that begin below the bound and end at or above it.
func (l *fakeLog) abortedAcross(bound int64) (all []segment.AbortedTxn) {
	for _, a := range l.aborted() {
		if a.FirstOffset < bound && a.LastOffset >= bound {
			all = append(all, a)
		}
	}
	return all
}

// committed returns the records that a read_committed consumer receives, by offset. Like Kafka's
// consumer, it finds the start of an aborted transaction in the transaction index, and recognizes
// its end by the marker.
func (l *fakeLog) committed() map[int64]*record.Record {
	l.t.Helper()
	entries, within, all := l.aborted(), map[int64]bool{}, map[int64]*record.Record{}
	slices.SortFunc(entries, func(a, b segment.AbortedTxn) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	for _, b := range l.batches() {
		if b.BaseOffset() >= l.lastStable() {
			break
		}
		for len(entries) > 0 && entries[0].FirstOffset <= b.LastOffset() {
			within[entries[0].ProducerID] = true
			entries = entries[1:]
		}
		if b.Control() {
			if m, ok, err := b.Marker(); err == nil && ok && m.Type == record.ControlAbort {
				delete(within, b.ProducerID())
			}
			continue
		}
		if b.Transactional() && within[b.ProducerID()] {
			continue
		}
		l.must(b.Records(1<<30, func(r *record.Record) error {
			if r.Key != nil {
				all[r.Offset] = &record.Record{Offset: r.Offset, Key: slices.Clone(r.Key),
					Value: slices.Clone(r.Value)}
				if r.Value != nil && all[r.Offset].Value == nil {
					all[r.Offset].Value = []byte{}
				}
			}
			return nil
		}))
	}
	return all
}

// truncate truncates the log to an offset, like a follower whose log extends beyond the leader's
// log, and starts a new leader epoch.
func (l *fakeLog) truncate(offset int64) {
	l.t.Helper()
	for len(l.segments) > 1 && l.active().Base() >= offset {
		last := l.active()
		l.must(last.Remove())
		l.must(last.Close())
		l.segments = l.segments[:len(l.segments)-1]
	}
	l.must(l.active().Truncate(offset))
	l.next = l.active().NextOffset()
	for len(l.epochs) > 0 && l.epochs[len(l.epochs)-1].start >= l.next {
		l.epochs = l.epochs[:len(l.epochs)-1]
	}
	l.lead()
	// Find the open transactions again: a transaction whose marker was truncated is now open.
	l.open = map[int64]int64{}
	for _, b := range l.batches() {
		if _, isOpen := l.open[b.ProducerID()]; b.Control() {
			delete(l.open, b.ProducerID())
		} else if b.Transactional() && !isOpen {
			l.open[b.ProducerID()] = b.BaseOffset()
		}
	}
}
