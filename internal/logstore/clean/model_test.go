package clean

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// model is what a dumb observer knows of a log: every record that was ever appended.
type model struct {
	*fakeLog
	random *rand.Rand
	keys   int

	appended map[int64]string         // by offset, as text
	history  map[string][]modelRecord // by key, ascending
	lonely   map[int64]time.Time      // tombstone -> start of the pass after which nothing older was there
}

type modelRecord struct {
	offset    int64
	tombstone bool
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		fakeLog: newLog(t), random: rand.New(rand.NewPCG(seed, 0)), appended: map[int64]string{},
		history: map[string][]modelRecord{}, lonely: map[int64]time.Time{},
	}
	m.keys = 1 + m.random.IntN(40)
	m.job.SegmentBytes = int64(500 + m.random.IntN(8000))
	m.job.TombstoneRetention = time.Duration(m.random.IntN(4)) * time.Minute
	m.job.KeepCodec = m.random.IntN(2) == 0
	m.job.Codec, m.job.CodecLevel = compress.Codec(m.random.IntN(5)), compress.LevelDefault
	m.job.Producers = map[int64]int64{}
	m.job.Replace = func(sources, cleaned []*segment.Segment) error {
		err := m.replace(sources, cleaned)
		m.checkState()
		return err
	}
	return m
}

// append appends one random batch, and tells the model of it.
func (m *model) append() {
	var records []string
	for range 1 + m.random.IntN(1+m.random.IntN(12)) {
		key := fmt.Sprintf("k%d", m.random.IntN(m.keys))
		switch kind := m.random.IntN(20); {
		case kind == 0:
			records = append(records, "=without a key")
			continue
		case kind < 5:
			records = append(records, key)
		default:
			records = append(records, key+"="+strings.Repeat("v", m.random.IntN(60)))
		}
		offset := m.next + int64(len(records)) - 1
		m.history[key] = append(m.history[key], modelRecord{offset, records[len(records)-1] == key})
	}
	id := record.Identity{ProducerID: int64(m.random.IntN(4)) - 1, LeaderEpoch: int32(m.random.IntN(3))}
	base := m.next
	m.batch(compress.Codec(m.random.IntN(5)), id, records...)
	if id.ProducerID >= 0 {
		m.job.Producers[id.ProducerID] = m.next - 1
	}
	position, err := m.active().Position(base)
	m.must(err)
	m.must(m.active().Scan(position, func(_ int64, b record.Batch) error {
		return b.Records(1<<20, func(r *record.Record) error {
			m.appended[r.Offset] = text(r)
			return nil
		})
	}))
}

// check holds the log against the model after a pass that ended at bound.
func (m *model) check(bound int64) {
	m.t.Helper()
	m.checkState()
	read := m.records()
	for key, history := range m.history {
		m.checkKey(key, history, read, bound)
	}
	m.checkBatches(bound)
}

// checkState checks what holds at every moment, also between the commits of a pass: I9, I14, I15.
func (m *model) checkState() {
	m.t.Helper()
	read := m.records()
	for offset, r := range read {
		if m.appended[offset] != r {
			m.t.Fatalf("offset %d holds %q, was %q", offset, r, m.appended[offset])
		}
	}
	for key, history := range m.history {
		last, left := history[len(history)-1], 0
		for _, r := range history {
			if _, there := read[r.offset]; there {
				left++
			}
		}
		if _, there := read[last.offset]; !there && !last.tombstone {
			m.t.Fatalf("the latest value of %s, at %d, is gone", key, last.offset)
		} else if !there && left > 0 {
			m.t.Fatalf("the tombstone of %s at %d is gone, but %d older records are there: the key is back", key, last.offset, left)
		}
	}
}

func (m *model) checkKey(key string, history []modelRecord, read map[int64]string, bound int64) {
	m.t.Helper()
	below := 0 // records of the key that are there below the bound
	var lastBelow modelRecord
	for _, r := range history {
		_, there := read[r.offset]
		if r.offset >= bound {
			if !there {
				m.t.Fatalf("%s at %d is above the bound %d, and gone", key, r.offset, bound)
			}
			continue
		}
		lastBelow = r
		if there {
			below++
		}
	}
	if below > 1 {
		m.t.Fatalf("%s stands %d times below the bound %d", key, below, bound)
	}
	if bound > 0 && lastBelow.tombstone {
		m.checkTombstone(key, lastBelow.offset, read)
	}
}

// checkTombstone holds the latest tombstone below the bound against I16 and I17. A pass has just ended.
func (m *model) checkTombstone(key string, offset int64, read map[int64]string) {
	m.t.Helper()
	began, known := m.lonely[offset]
	if _, there := read[offset]; there {
		if !known {
			m.lonely[offset] = m.now
		} else if !m.now.Before(began.Add(m.job.TombstoneRetention)) {
			m.t.Fatalf("the tombstone of %s at %d is there %s after what it deletes", key, offset, m.now.Sub(began))
		}
		return
	}
	if !known {
		m.t.Fatalf("the tombstone of %s at %d went in the first pass that saw it", key, offset)
	}
	if !began.Equal(gone) && m.now.Before(began.Add(m.job.TombstoneRetention)) {
		m.t.Fatalf("the tombstone of %s at %d went %s after what it deletes", key, offset, m.now.Sub(began))
	}
	m.lonely[offset] = gone
}

// gone stands for a tombstone that went lawfully.
var gone = time.Unix(0, 0)

// checkBatches checks what must be there besides records: I25, I29.
func (m *model) checkBatches(bound int64) {
	m.t.Helper()
	last := map[int64]int64{}
	end := int64(0)
	for _, b := range m.batches() {
		if b.ProducerID() >= 0 {
			last[b.ProducerID()] = b.LastOffset()
		}
		if b.NextOffset() <= bound {
			end = b.NextOffset()
		}
	}
	for id, offset := range m.job.Producers {
		if last[id] != offset {
			m.t.Fatalf("the last batch of producer %d ends at %d, want %d", id, last[id], offset)
		}
	}
	if end != bound {
		m.t.Fatalf("the last batch below the bound ends at %d, want %d", end, bound)
	}
}

func TestRandomHistoriesAgainstTheModel(t *testing.T) { // I9, I10, I13 to I17, I25, I29, X2, X3
	first := uint64(time.Now().UnixNano())
	for seed := first; seed < first+60; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 150 {
				switch m.random.IntN(10) {
				case 0, 1:
					if m.active().SizeBytes() > 0 {
						m.roll()
					}
				case 2:
					m.now = m.now.Add(time.Duration(m.random.IntN(90)) * time.Second)
					if m.random.IntN(10) == 0 {
						m.firstDirty = 0 // the checkpoint was lost
					}
					m.pass()
					m.check(m.active().Base())
				default:
					m.append()
				}
			}
			m.checkState()
			if left := m.leftovers(); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}
