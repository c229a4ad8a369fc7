package clean

import (
	"time"
)

// outcome is the outcome of a transaction.
type outcome struct {
	marker int64 // offset of the marker
	commit bool
}

// check compares the log with the model after a pass with the given bound.
func (m *model) check(bound int64, stats Stats) {
	m.t.Helper()
	m.checkState()
	if limit := float64(m.job.Rules.MaxGarbagePercent); limit > 0 {
		size := int64(0)
		for _, s := range m.segments {
			if s.Base() < bound {
				size += s.SizeBytes()
			}
		}
		if float64(stats.GarbageBytes)*100 > limit*float64(size)*1.2+5000 {
			m.t.Fatalf("%d bytes of garbage remain in %d, %f percent are allowed",
				stats.GarbageBytes, size, limit)
		}
	} else if stats.GarbageBytes > 0 || stats.GarbageRecords > 0 {
		m.t.Fatalf("a pass without maxGarbagePercent leaves %d bytes and %d records of garbage",
			stats.GarbageBytes, stats.GarbageRecords)
	}
	read := m.records()
	for key, history := range m.history {
		m.checkKey(key, history, read, bound)
	}
	m.checkBatches(bound)
	m.checkTombstoneCleanOffset(bound, stats.TombstoneCleanOffset, read)
}

// checkTombstoneCleanOffset compares the tombstone-clean offset that a pass has reported with the
// expected offset, computed from the model and the log. The expected offset is rounded down to the
// start of a batch.
func (m *model) checkTombstoneCleanOffset(bound, got int64, read map[int64]string) {
	m.t.Helper()
	want := bound
	for _, history := range m.history {
		var last *modelRecord
		for _, r := range history {
			if r.offset < bound && !m.aborted(r) {
				last = &r
			}
		}
		for _, r := range history {
			if _, ok := read[r.offset]; ok && last != nil && last.tombstone &&
				r.offset < last.offset {
				want = min(want, last.offset)
			}
		}
	}
	for _, b := range m.batches() {
		if b.BaseOffset() <= want && want < b.NextOffset() && want < bound {
			want = b.BaseOffset()
		}
	}
	if got != want {
		m.t.Fatalf("tombstone-clean offset is %d, want %d; bound %d", got, want, bound)
	}
}

// checkState checks the invariants that hold at every moment, even between the commits of a pass:
// I9, I11, I14, I15, I22, F1.
func (m *model) checkState() {
	m.t.Helper()
	read, committed := m.records(), m.committed()
	for offset, r := range read {
		if m.appended[offset] != r {
			m.t.Fatalf("record at offset %d is %q, want %q", offset, r, m.appended[offset])
		}
	}
	for key, history := range m.history {
		// latest is the key's latest record for a read_committed consumer of the uncleaned log.
		var latest *modelRecord
		older, lowest := 0, int64(0)
		for i := range history {
			r := &history[i]
			_, exists := read[r.offset]
			_, visible := committed[r.offset]
			aborted, open := m.aborted(*r), m.undecided(*r)
			switch {
			case visible && (aborted || open):
				m.t.Fatalf("%s at %d is visible, but its transaction was not committed", key,
					r.offset)
			case exists && !visible && !aborted && !open && r.offset < m.lastStable():
				m.t.Fatalf("%s at %d is committed, but not visible", key, r.offset)
			case open && !exists:
				m.t.Fatalf("%s at %d was removed, but its transaction is open", key, r.offset)
			}
			if !aborted && !open && r.offset < m.lastStable() {
				latest, older = r, 0
				for _, below := range history[:i] {
					if _, ok := read[below.offset]; ok {
						older, lowest = older+1, below.offset
					}
				}
			}
		}
		if latest == nil {
			continue
		}
		if _, ok := read[latest.offset]; !ok && !latest.tombstone {
			m.t.Fatalf("the latest value of %s, at %d, was removed", key, latest.offset)
		} else if !ok && older > 0 {
			m.t.Fatalf("the tombstone of %s at %d was removed, but %d older records remain, one at "+
				"%d: the key has reappeared", key, latest.offset, older, lowest)
		}
	}
}

func (m *model) checkKey(key string, history []modelRecord, read map[int64]string, bound int64) {
	m.t.Helper()
	below := 0 // number of remaining records of the key below the bound
	var last *modelRecord
	for _, r := range history {
		_, exists := read[r.offset]
		if r.offset >= bound {
			if !exists && r.offset >= m.boundMax {
				m.t.Fatalf("%s at %d, above the bound %d, was removed", key, r.offset, bound)
			}
			continue
		}
		if exists {
			below++
		}
		if !m.aborted(r) {
			last = &r
		}
	}
	if m.job.Rules.MaxGarbagePercent > 0 {
		return
	}
	if below > 1 {
		m.t.Fatalf("%s has %d records below the bound %d", key, below, bound)
	}
	if last != nil && last.tombstone {
		m.checkTombstone(key, last.offset, read, bound)
	}
}

// checkTombstone checks, after a pass, a key whose latest record is a tombstone. A pass must remove
// the tombstone once its retention is over, and not earlier (invariant I16). That pass must be
// later than the pass that removed the key's older records (I17). The last record below the bound
// remains (I29).
func (m *model) checkTombstone(key string, offset int64, read map[int64]string, bound int64) {
	m.t.Helper()
	since, removable := m.removableAt[offset]
	if _, exists := read[offset]; exists {
		if !removable {
			m.removableAt[offset] = m.now
		} else if !m.now.Before(since.Add(m.job.Rules.TombstoneRetention)) && !m.lateAllowed &&
			offset+1 != bound {
			m.t.Fatalf("the tombstone of %s at %d remains %s after it became removable", key,
				offset, m.now.Sub(since))
		}
		return
	}
	if !removable {
		m.t.Fatalf("the tombstone of %s at %d was removed by the first pass", key, offset)
	}
	if !since.Equal(removedInTime) && m.now.Before(since.Add(m.job.Rules.TombstoneRetention)) {
		m.t.Fatalf("the tombstone of %s at %d was removed %s after it became removable", key,
			offset, m.now.Sub(since))
	}
	m.removableAt[offset] = removedInTime
}

// removedInTime is the value in removableAt for a tombstone that was already removed, correctly,
// after its retention, so that it is not checked again.
var removedInTime = time.Unix(0, 0)

// checkBatches checks the batches that must remain without records: I25, I29.
func (m *model) checkBatches(bound int64) {
	m.t.Helper()
	last := map[int64]int64{}
	end := int64(0)
	for _, b := range m.batches() {
		if b.ProducerID() >= 0 && !b.Control() {
			last[b.ProducerID()] = b.LastOffset()
		}
		if b.NextOffset() <= bound {
			end = b.NextOffset()
		}
	}
	for id, offset := range m.producers {
		if last[id] != offset {
			m.t.Fatalf("last batch of producer %d ends at %d, want %d", id, last[id], offset)
		}
	}
	if m.truncated {
		return
	}
	if end != bound {
		m.t.Fatalf("last batch below the bound ends at %d, want %d", end, bound)
	}
	m.checkLastRecord(bound)
}

// checkLastRecord checks that the last record below the bound remains, unless its transaction was
// aborted (I29).
func (m *model) checkLastRecord(bound int64) {
	m.t.Helper()
	for _, b := range m.batches() {
		entry := modelRecord{offset: b.LastOffset(), producer: -1}
		if b.Transactional() && !b.Control() {
			entry.producer = b.ProducerID()
		}
		if _, ok := m.records()[bound-1]; b.NextOffset() == bound && !ok && !m.aborted(entry) {
			m.t.Fatalf("the last record below the bound %d is missing", bound)
		}
	}
}
