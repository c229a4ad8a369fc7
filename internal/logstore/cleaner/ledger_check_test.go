package cleaner

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// scanned is what a consumer of everything reads, from the log start to the end.
type scanned struct {
	batches []record.Batch
	records map[int64]*record.Record
}

// scan reads the log as read_uncommitted does. A read that gives nothing, or does not move on, is a
// stall (I43, I44).
func (s *stage) scan() scanned {
	all := scanned{records: map[int64]*record.Record{}}
	for offset, end := s.log.LogStart(), s.log.LogEnd(); offset < end; {
		batches := s.readAt(offset, 1<<20)
		if len(batches) == 0 {
			if !s.ledger.truncated {
				stageFail("a read at %d of %d gives nothing", offset, end)
			}
			break
		}
		for _, b := range batches {
			if b.NextOffset() <= offset {
				stageFail("a read at %d gives a batch that ends at %d", offset, b.NextOffset())
			}
			from := offset
			offset = b.NextOffset()
			all.batches = append(all.batches, b)
			if b.Control() {
				continue
			}
			for _, r := range copiesOf(b) {
				if r.Offset >= from {
					all.records[r.Offset] = r
				}
			}
		}
	}
	return all
}

// readAt is one fetch.
func (s *stage) readAt(offset int64, bytesMax int) []record.Batch {
	slice, err := s.log.Read(offset, s.log.LogEnd(), bytesMax, true)
	if err != nil {
		stageFail("read at %d: %v", offset, err)
	}
	defer slice.Release()
	return batchesOf(stageTB{}, slice)
}

// stageTB is what helpers that want a testing.TB get.
type stageTB struct{ testing.TB }

func (stageTB) Helper()                           {}
func (stageTB) Fatal(args ...any)                 { stageFail("%v", args) }
func (stageTB) Fatalf(format string, args ...any) { stageFail(format, args...) }

func copiesOf(b record.Batch) (all []*record.Record) {
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
	stageMust(err, "records")
	return all
}

// check holds the log against the ledger: what holds at every moment.
func (l *ledger) check(s *stage) {
	l.retentionMin = min(l.retentionMin, s.settings.TombstoneRetention)
	l.cleanable = max(l.cleanable, min(s.log.LastStable(), s.activeBase()))
	s.wantEnd(l.end) // I15
	if start := s.log.LogStart(); start != l.start {
		if start < l.start || !s.settings.Delete || s.settings.RetentionBytes < 0 {
			stageFail("the log begins at %d, want %d", start, l.start)
		}
		l.start = start
	}
	there, all := s.scan(), l.all()
	l.checkBits(there, all)
	l.checkKeys(there, all, s.log.LastStable())
}

// checkBits checks that what is there was appended, and that what may not go is there: I1, I2, I9,
// I24.
func (l *ledger) checkBits(there scanned, all []ledgerRecord) {
	appended := 0
	for _, r := range all {
		found, ok := there.records[r.Offset]
		switch {
		case ok && !sameRecord(found, r.Record):
			stageFail("read %s, appended was %s", recordText(found), recordText(r.Record))
		case ok:
			appended++
		case r.Offset >= l.cleanable && r.Offset >= l.start:
			stageFail("the record at %d is gone, and nothing from %d on was ever below a bound",
				r.Offset, l.cleanable)
		case r.fate == openTxnFate && r.Offset >= l.start:
			stageFail("the record at %d is gone, and its transaction is open", r.Offset)
		}
	}
	if appended < len(there.records) {
		for offset, r := range there.records {
			if !slices.ContainsFunc(all, func(a ledgerRecord) bool { return a.Offset == offset }) {
				stageFail("read %s, which nobody appended", recordText(r))
			}
		}
	}
}

// checkKeys checks each key's latest committed record: I10, I14, I15, I16, F1. As it stays, and
// nothing older is there without it, a reader ends with the same value whatever the offset it
// begins at.
func (l *ledger) checkKeys(there scanned, all []ledgerRecord, stable int64) {
	latest, older := map[string]*record.Record{}, map[string]int64{}
	// key -> the highest offset so far of a committed record that is there
	last := map[string]int64{}
	now := time.Now()
	for _, r := range all {
		if r.Key == nil || r.fate != decidedTxnFate || r.Offset >= stable {
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
		// Also of one that is superseded: what supersedes it may be cut off.
		if _, known := l.blocked[r.Offset]; r.Value == nil && (!known || blocked) {
			l.blocked[r.Offset] = now
		}
		last[key] = r.Offset
	}
	for key, r := range latest {
		_, found := there.records[r.Offset]
		if found || r.Offset < l.start {
			continue
		}
		left, isOlder := older[key]
		since, known := l.blocked[r.Offset]
		switch {
		case r.Value != nil:
			stageFail("the latest value of %q, at %d, is gone", key, r.Offset)
		case isOlder:
			stageFail("the tombstone of %q at %d is gone, and %d is there: the key is back", key,
				r.Offset, left)
		case !known:
			stageFail("the tombstone of %q at %d was never seen", key, r.Offset)
		case now.Sub(since) < l.retentionMin:
			stageFail("the tombstone of %q at %d went within %s, retention is %s", key, r.Offset,
				now.Sub(since), l.retentionMin)
		}
	}
}

// checkReads fetches at every offset, as consumers of both isolation levels: I11, I22, I43, I44.
func (l *ledger) checkReads(s *stage) {
	s.still()
	there, fates := s.scan(), map[int64]txnFate{}
	for _, r := range l.all() {
		fates[r.Offset] = r.fate
	}
	at := 0
	for offset := l.start; offset < l.end; offset++ {
		for at < len(there.batches) && there.batches[at].NextOffset() <= offset {
			at++
		}
		l.checkRead(s, offset, there.batches[at:])
	}
	for offset := l.start; offset < s.log.LastStable(); offset++ {
		l.checkCommitted(s, offset, there, fates)
	}
}

// checkRead checks one fetch against what a reader that began at the front got from there on.
func (l *ledger) checkRead(s *stage, offset int64, rest []record.Batch) {
	got := s.readAt(offset, 1)
	if len(got) == 0 {
		if len(rest) > 0 && !l.truncated {
			stageFail("a read at %d gives nothing, and a batch at %d follows", offset,
				rest[0].BaseOffset())
		}
		return
	}
	for _, b := range rest {
		if b.BaseOffset() == got[0].BaseOffset() {
			return
		}
		for _, r := range copiesOf(b) {
			if r.Offset >= offset {
				stageFail("a read at %d begins at %d, and passes over the record at %d", offset,
					got[0].BaseOffset(), r.Offset)
			}
		}
	}
	stageFail("a read at %d gives a batch at %d, which no reader from the front got", offset,
		got[0].BaseOffset())
}

// checkCommitted checks one fetch of committed data: it shows what is there of decided
// transactions, and nothing else.
func (l *ledger) checkCommitted(s *stage, offset int64, there scanned, fates map[int64]txnFate) {
	slice, err := s.log.ReadCommitted(offset, s.log.LogEnd(), 200, true)
	stageMust(err, "read committed")
	defer slice.Release()
	batches := batchesOf(stageTB{}, slice)
	shown, end := map[int64]bool{}, offset
	for _, b := range leaveOut(batches, slice.Aborted) {
		for _, r := range copiesOf(b) {
			if r.Offset < offset {
				continue
			}
			if shown[r.Offset] = true; fates[r.Offset] != decidedTxnFate {
				stageFail("a read of committed data at %d shows the record at %d, which is not",
					offset, r.Offset)
			}
		}
	}
	if len(batches) > 0 {
		end = batches[len(batches)-1].NextOffset()
	} else if !l.truncated {
		stageFail("a read of committed data at %d gives nothing, and %d is stable", offset,
			s.log.LastStable())
	}
	for o := offset; o < end; o++ {
		if _, found := there.records[o]; found && fates[o] == decidedTxnFate && !shown[o] {
			stageFail("a read of committed data at %d hides the record at %d", offset, o)
		}
	}
}

// leaveOut drops what a consumer drops: control batches, and those of the aborted transactions it
// was told of (Kafka's Fetcher).
func leaveOut(batches []record.Batch, told []segment.AbortedTxn) (left []record.Batch) {
	told = slices.SortedStableFunc(slices.Values(told),
		func(a, b segment.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
	aborted := map[int64]bool{}
	for _, b := range batches {
		for len(told) > 0 && told[0].FirstOffset <= b.LastOffset() {
			aborted[told[0].ProducerID] = true
			told = told[1:]
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

// checkSettled checks what a log comes to when all transactions are ended and time enough has
// passed: below the active segment each key stands once, with a value, and nothing else does (I10,
// I11, I13, I17, I18, I20).
func (l *ledger) checkSettled(s *stage) {
	s.still()
	bound := s.activeBase()
	there, keys := s.scan(), map[string]int64{}
	for _, r := range l.all() {
		if _, found := there.records[r.Offset]; !found || r.Offset >= bound || r.Offset < l.start {
			continue
		}
		before, again := keys[string(r.Key)]
		switch {
		case r.Key == nil:
			stageFail("the record without a key at %d is there", r.Offset)
		case r.fate == abortedTxnFate:
			stageFail("the record at %d is there, and its transaction was aborted", r.Offset)
		case r.Value == nil:
			stageFail("the tombstone of %q at %d is there still", r.Key, r.Offset)
		case again:
			stageFail("%q stands at %d and at %d", r.Key, before, r.Offset)
		}
		keys[string(r.Key)] = r.Offset
	}
	for _, b := range there.batches {
		if b.Control() && b.Count() > 0 && b.NextOffset() < bound &&
			len(l.activeOf(b.ProducerID())) == 0 {
			stageFail("the marker at %d is there still", b.BaseOffset())
		}
	}
}

// activeOf are the batches that a producer's state keeps in the log, or whose keys do: while there
// is one, its marker may be needed.
func (l *ledger) activeOf(producer int64) (all []int64) {
	for _, b := range l.batches {
		if b.producer == producer {
			all = append(all, b.base)
		}
	}
	return all
}
