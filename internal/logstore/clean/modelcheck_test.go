package clean

import (
	"time"
)

// ended is a marker.
type ended struct {
	at     int64
	commit bool
}

// check holds the log against the model after a pass that ended at bound.
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
			m.t.Fatalf("%d bytes of garbage are left in %d, %f percent are allowed",
				stats.GarbageBytes, size, limit)
		}
	} else if stats.GarbageBytes > 0 || stats.GarbageRecords > 0 {
		m.t.Fatalf("a pass without a threshold leaves %d bytes and %d records of garbage",
			stats.GarbageBytes, stats.GarbageRecords)
	}
	read := m.records()
	for key, history := range m.history {
		m.checkKey(key, history, read, bound)
	}
	m.checkBatches(bound)
	m.checkLonely(bound, stats.TombstoneCleanOffset, read)
}

// checkLonely holds what a pass says of its tombstones against the log: to the batch.
func (m *model) checkLonely(bound, lonelyTo int64, read map[int64]string) {
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
			if _, there := read[r.offset]; there && last != nil && last.tombstone &&
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
	if lonelyTo != want {
		m.t.Fatalf("every tombstone below %d is alone, says the pass; it is below %d, of %d",
			lonelyTo, want, bound)
	}
}

// checkState checks what holds at every moment, also between the commits of a pass: I9, I11, I14,
// I15, I22, F1.
func (m *model) checkState() {
	m.t.Helper()
	read, shown := m.records(), m.committed()
	for offset, r := range read {
		if m.appended[offset] != r {
			m.t.Fatalf("offset %d holds %q, was %q", offset, r, m.appended[offset])
		}
	}
	for key, history := range m.history {
		var latest *modelRecord // as a reader of the uncleaned log would see it with read_committed
		left, lowest := 0, int64(0)
		for i := range history {
			r := &history[i]
			_, there := read[r.offset]
			_, visible := shown[r.offset]
			aborted, open := m.aborted(*r), m.undecided(*r)
			switch {
			case visible && (aborted || open):
				m.t.Fatalf("%s at %d is shown, and its transaction was not committed", key,
					r.offset)
			case there && !visible && !aborted && !open && r.offset < m.lastStable():
				m.t.Fatalf("%s at %d is committed, and not shown", key, r.offset)
			case open && !there:
				m.t.Fatalf("%s at %d is gone, and its transaction is open", key, r.offset)
			}
			if !aborted && !open && r.offset < m.lastStable() {
				latest, left = r, 0 // what stood below it counts if the tombstone goes
				for _, older := range history[:i] {
					if _, there := read[older.offset]; there {
						left, lowest = left+1, older.offset
					}
				}
			}
		}
		if latest == nil {
			continue
		}
		if _, there := read[latest.offset]; !there && !latest.tombstone {
			m.t.Fatalf("the latest value of %s, at %d, is gone", key, latest.offset)
		} else if !there && left > 0 {
			m.t.Fatalf("the tombstone of %s at %d is gone, but %d older records are there, one at %d: the key is back", key, latest.offset, left, lowest)
		}
	}
}

func (m *model) checkKey(key string, history []modelRecord, read map[int64]string, bound int64) {
	m.t.Helper()
	below := 0 // records of the key that are there below the bound
	var last *modelRecord
	for _, r := range history {
		_, there := read[r.offset]
		if r.offset >= bound {
			if !there && r.offset >= m.highest {
				m.t.Fatalf("%s at %d is above the bound %d, and gone", key, r.offset, bound)
			}
			continue
		}
		if there {
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
		m.t.Fatalf("%s stands %d times below the bound %d", key, below, bound)
	}
	if last != nil && last.tombstone {
		m.checkTombstone(key, last.offset, read)
	}
}

// checkTombstone holds the latest tombstone below the bound against I16 and I17. A pass has just
// ended.
func (m *model) checkTombstone(key string, offset int64, read map[int64]string) {
	m.t.Helper()
	began, known := m.clocks[offset]
	if _, there := read[offset]; there {
		if !known {
			m.clocks[offset] = m.now
		} else if !m.now.Before(began.Add(m.job.Rules.TombstoneRetention)) && !m.lossy {
			m.t.Fatalf("the tombstone of %s at %d is there %s after what it deletes", key, offset,
				m.now.Sub(began))
		}
		return
	}
	if !known {
		m.t.Fatalf("the tombstone of %s at %d went in the first pass that saw it", key, offset)
	}
	if !began.Equal(gone) && m.now.Before(began.Add(m.job.Rules.TombstoneRetention)) {
		m.t.Fatalf("the tombstone of %s at %d went %s after what it deletes", key, offset,
			m.now.Sub(began))
	}
	m.clocks[offset] = gone
}

// gone stands for a tombstone that went lawfully.
var gone = time.Unix(0, 0)

// checkBatches checks what must be there besides records: I25, I29.
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
			m.t.Fatalf("the last batch of producer %d ends at %d, want %d", id, last[id], offset)
		}
	}
	if end != bound && !m.truncated {
		m.t.Fatalf("the last batch below the bound ends at %d, want %d", end, bound)
	}
}
