package cleaner

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// scanned contains everything that a read_uncommitted consumer reads from the log start to the log
// end.
type scanned struct {
	batches []record.Batch
	records map[int64]*record.Record
}

// scan reads the whole log. It fails if a read returns nothing or does not advance, because a
// consumer would then never reach the log end (I43, I44).
func (s *scenario) scan() scanned {
	all := scanned{records: map[int64]*record.Record{}}
	for offset, end := s.log.LogStart(), s.log.LogEnd(); offset < end; {
		batches := s.readAt(offset, 1<<20)
		if len(batches) == 0 {
			if !s.ledger.truncated {
				fail("a read at %d of %d returns nothing", offset, end)
			}
			break
		}
		for _, b := range batches {
			if b.NextOffset() <= offset {
				fail("a read at %d returns a batch that ends at %d", offset, b.NextOffset())
			}
			from := offset
			offset = b.NextOffset()
			all.batches = append(all.batches, b)
			if b.Control() {
				continue
			}
			for _, r := range recordsOf(b) {
				if r.Offset >= from {
					all.records[r.Offset] = r
				}
			}
		}
	}
	return all
}

// readAt returns the batches that one fetch returns.
func (s *scenario) readAt(offset int64, bytesMax int) []record.Batch {
	slice, err := s.log.Read(offset, s.log.LogEnd(), bytesMax, true)
	if err != nil {
		fail("read at %d: %v", offset, err)
	}
	defer slice.Release()
	return batchesOf(scenarioTB{}, slice)
}

// scenarioTB is the testing.TB that a scenario passes to helpers.
type scenarioTB struct{ testing.TB }

func (scenarioTB) Helper()                           {}
func (scenarioTB) Fatal(args ...any)                 { fail("%v", args) }
func (scenarioTB) Fatalf(format string, args ...any) { fail(format, args...) }

func recordsOf(b record.Batch) (all []*record.Record) {
	err := b.Records(64<<20, func(r *record.Record) error {
		c := *r
		c.Key, c.Value, c.Headers = slices.Clone(r.Key), slices.Clone(r.Value), nil
		for _, h := range r.Headers {
			c.Headers = append(c.Headers,
				record.Header{Key: slices.Clone(h.Key), Value: slices.Clone(h.Value)})
		}
		all = append(all, &c)
		return nil
	})
	must(err, "records")
	return all
}

// check checks the invariants that hold at any time, not only after all retentions have passed.
func (l *ledger) check(s *scenario) {
	l.retentionMin = min(l.retentionMin, s.settings.TombstoneRetention)
	l.cleanable = max(l.cleanable, min(s.log.LastStable(), s.activeBase()))
	s.wantEnd(l.end) // I15
	if start := s.log.LogStart(); start != l.start {
		if start < l.start || !s.settings.Delete || s.settings.RetentionBytes < 0 {
			fail("the log starts at %d, want %d", start, l.start)
		}
		l.start = start
	}
	there, all := s.scan(), l.all()
	l.checkLastRecord(there)
	l.checkRecords(there, all)
	l.checkKeys(there, all, s.log.LastStable())
}

// checkLastRecord checks that a log that is not empty ends with a record or a marker (I29). Only a
// truncation may remove its last record after a pass has removed the records below it.
func (l *ledger) checkLastRecord(there scanned) {
	if l.truncated || l.start == l.end {
		return
	}
	last := there.batches[len(there.batches)-1]
	if last.NextOffset() != l.end || last.Count() == 0 {
		fail("the last batch ends at %d and has %d records; the log ends at %d",
			last.NextOffset(), last.Count(), l.end)
	}
	if _, found := there.records[l.end-1]; !found && !last.Control() {
		fail("the last record, at %d, is missing", l.end-1)
	}
}

// checkRecords checks that the log contains only appended records, and all records that a pass must
// not remove: I1, I2, I9, I24.
func (l *ledger) checkRecords(there scanned, all []ledgerRecord) {
	appended := 0
	for _, r := range all {
		found, ok := there.records[r.Offset]
		switch {
		case ok && !sameRecord(found, r.Record):
			fail("read %s, appended %s", recordText(found), recordText(r.Record))
		case ok:
			appended++
		case r.Offset >= l.cleanable && r.Offset >= l.start:
			fail("the record at %d is missing, and the cleanable bound was never above %d",
				r.Offset, l.cleanable)
		case r.txn == txnOpen && r.Offset >= l.start:
			fail("the record at %d of an open transaction is missing", r.Offset)
		}
	}
	if appended < len(there.records) {
		for offset, r := range there.records {
			if !slices.ContainsFunc(all, func(a ledgerRecord) bool { return a.Offset == offset }) {
				fail("read %s, which was not appended", recordText(r))
			}
		}
	}
}

// checkKeys checks the latest committed record of each key: I10, I14, I15, I16, F1. As long as an
// older record of the key is in the log, the latest record must be in the log too. A reader then
// finds the same last value from any offset.
func (l *ledger) checkKeys(there scanned, all []ledgerRecord, stable int64) {
	latest, older := map[string]*record.Record{}, map[string]int64{}
	// last maps a key to the highest offset so far of a committed record of the key that is in the
	// log.
	last := map[string]int64{}
	now := time.Now()
	for _, r := range all {
		if r.Key == nil || r.txn != txnCommitted || r.Offset >= stable {
			continue
		}
		key := string(r.Key)
		below, blocked := last[key]
		if latest[key] = r.Record; blocked {
			older[key] = below
		}
		if _, found := there.records[r.Offset]; !found {
			continue
		}
		// Record superseded tombstones too, because a truncation may remove the record that
		// supersedes a tombstone.
		if _, known := l.blockedUntil[r.Offset]; r.Value == nil && (!known || blocked) {
			l.blockedUntil[r.Offset] = now
		}
		last[key] = r.Offset
	}
	for key, r := range latest {
		_, found := there.records[r.Offset]
		if found || r.Offset < l.start {
			continue
		}
		left, isOlder := older[key]
		since, known := l.blockedUntil[r.Offset]
		switch {
		case r.Value != nil:
			fail("the latest value of %q, at %d, is missing", key, r.Offset)
		case isOlder:
			fail("the tombstone of %q at %d is missing, and an older record at %d is in the log", key,
				r.Offset, left)
		case !known:
			fail("the tombstone of %q at %d was never in the log", key, r.Offset)
		case now.Sub(since) < l.retentionMin:
			fail("the tombstone of %q at %d was removed within %s, retention is %s", key, r.Offset,
				now.Sub(since), l.retentionMin)
		}
	}
}

// checkReads fetches from every offset with both isolation levels, and checks the results: I11,
// I22, I43, I44.
func (l *ledger) checkReads(s *scenario) {
	s.waitIdle()
	there, states := s.scan(), map[int64]txnState{}
	for _, r := range l.all() {
		states[r.Offset] = r.txn
	}
	index := 0
	for offset := l.start; offset < l.end; offset++ {
		for index < len(there.batches) && there.batches[index].NextOffset() <= offset {
			index++
		}
		l.checkRead(s, offset, there.batches[index:])
	}
	for offset := l.start; offset < s.log.LastStable(); offset++ {
		l.checkCommitted(s, offset, there, states)
	}
}

// checkRead compares one fetch from an offset with the expected batches. rest lists these batches:
// the batches at or after the offset that a reader from the log start receives.
func (l *ledger) checkRead(s *scenario, offset int64, rest []record.Batch) {
	got := s.readAt(offset, 1)
	if len(got) == 0 {
		if len(rest) > 0 && !l.truncated {
			fail("a read at %d returns nothing, and a batch at %d follows", offset,
				rest[0].BaseOffset())
		}
		return
	}
	for _, b := range rest {
		if b.BaseOffset() == got[0].BaseOffset() {
			return
		}
		for _, r := range recordsOf(b) {
			if r.Offset >= offset {
				fail("a read at %d begins at %d, and skips the record at %d", offset,
					got[0].BaseOffset(), r.Offset)
			}
		}
	}
	fail("a read at %d returns a batch at %d, which no reader from the log start gets", offset,
		got[0].BaseOffset())
}

// checkCommitted checks that one read_committed fetch returns all records of committed
// transactions, and no other records.
func (l *ledger) checkCommitted(s *scenario, offset int64, there scanned,
	states map[int64]txnState) {
	slice, err := s.log.ReadCommitted(offset, s.log.LogEnd(), 200, true)
	must(err, "read committed")
	defer slice.Release()
	batches := batchesOf(scenarioTB{}, slice)
	returned, end := map[int64]bool{}, offset
	for _, b := range committedOnly(batches, slice.Aborted) {
		for _, r := range recordsOf(b) {
			if r.Offset < offset {
				continue
			}
			if returned[r.Offset] = true; states[r.Offset] != txnCommitted {
				fail("a read_committed fetch at %d returns the uncommitted record at %d",
					offset, r.Offset)
			}
		}
	}
	if len(batches) > 0 {
		end = batches[len(batches)-1].NextOffset()
	} else if !l.truncated {
		fail("a read_committed fetch at %d returns nothing below the last stable offset %d", offset,
			s.log.LastStable())
	}
	for o := offset; o < end; o++ {
		if _, found := there.records[o]; found && states[o] == txnCommitted && !returned[o] {
			fail("a read_committed fetch at %d omits the record at %d", offset, o)
		}
	}
}

// committedOnly removes control batches and batches of aborted transactions, which a read_committed
// consumer ignores, like Kafka's Fetcher.
func committedOnly(batches []record.Batch, txns []segment.AbortedTxn) (left []record.Batch) {
	txns = slices.SortedStableFunc(slices.Values(txns),
		func(a, b segment.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	aborted := map[int64]bool{}
	for _, b := range batches {
		for len(txns) > 0 && txns[0].FirstOffset <= b.LastOffset() {
			aborted[txns[0].ProducerID] = true
			txns = txns[1:]
		}
		switch {
		case b.Control():
			if m, ok, err := b.Marker(); err == nil && ok && m.Type == record.ControlAbort {
				delete(aborted, b.ProducerID())
			}
		case !b.Transactional() || !aborted[b.ProducerID()]:
			left = append(left, b)
		}
	}
	return left
}

// checkSettled checks a log after all transactions were ended and all retentions have passed. Below
// the active segment, the log contains exactly one record of each key, and this record has a value
// (I10, I11, I13, I17, I18, I20). The last record may be of any kind (I29).
func (l *ledger) checkSettled(s *scenario) {
	s.waitIdle()
	bound := s.activeBase()
	there, keys := s.scan(), map[string]int64{}
	for _, r := range l.all() {
		if _, found := there.records[r.Offset]; !found || r.Offset >= bound ||
			r.Offset < l.start || r.Offset == bound-1 {
			continue
		}
		before, again := keys[string(r.Key)]
		switch {
		case r.Key == nil:
			fail("the record without a key at %d is not removed", r.Offset)
		case r.txn == txnAborted:
			fail("the record at %d of an aborted transaction is not removed", r.Offset)
		case r.Value == nil:
			fail("the tombstone of %q at %d is not removed", r.Key, r.Offset)
		case again:
			fail("key %q has two records, at %d and %d", r.Key, before, r.Offset)
		}
		keys[string(r.Key)] = r.Offset
	}
	for _, b := range there.batches {
		for _, r := range recordsOf(b) {
			if r.Offset < l.start && b.NextOffset() <= bound && !b.Control() {
				fail("the record at %d was deleted, and is still on disk", r.Offset)
			}
		}
		if b.Control() && b.Count() > 0 && b.NextOffset() < bound &&
			len(l.batchesOf(b.ProducerID())) == 0 {
			fail("the marker at %d is not removed", b.BaseOffset())
		}
	}
}

// batchesOf returns the base offsets of a producer's batches. While the producer has batches in the
// log, its marker may be needed.
func (l *ledger) batchesOf(producer int64) (all []int64) {
	for _, b := range l.batches {
		if b.producer == producer {
			all = append(all, b.base)
		}
	}
	return all
}
