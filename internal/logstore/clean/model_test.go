package clean

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/seed"
)

var modelRuns = flag.Int("model.runs", 60, "how many histories to play")

// model is what a dumb observer knows of a log: every record that was ever appended, and what
// became of its transaction.
type model struct {
	*fakeLog
	random    *rand.Rand
	seed      uint64
	keys      int
	producers map[int64]int64 // as the log knows them: producer -> last data offset

	ended    map[int64][]ended        // markers of each producer, ascending
	appended map[int64]string         // by offset, as text
	history  map[string][]modelRecord // by key, ascending
	// tombstone -> start of the pass after which nothing older was there
	clocks map[int64]time.Time
	// log end of the last pass: nothing behind it has decided on what went
	known   int64
	highest int64 // bound of all: what is above was never cleaned
	bounded int64 // its bound: what .dead files were computed through
	// lossy tells that something was lost that makes clocks begin anew, which the model does not
	// follow: then tombstones may be late.
	lossy     bool
	truncated bool // so the log may end where no batch does
}

// modelRecord is a record with a key.
type modelRecord struct {
	offset    int64
	tombstone bool
	producer  int64 // of its transaction; -1: none
}

// aborted and undecided tell of a record what became of its transaction.
func (m *model) aborted(r modelRecord) bool {
	for _, e := range m.ended[r.producer] {
		if r.producer >= 0 && r.offset < e.at {
			return !e.commit
		}
	}
	return false
}

func (m *model) undecided(r modelRecord) bool {
	first, open := m.open[r.producer]
	return r.producer >= 0 && open && r.offset >= first
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		fakeLog: newLog(t), random: rand.New(rand.NewPCG(seed, 0)), seed: seed,
		producers: map[int64]int64{}, appended: map[int64]string{},
		ended: map[int64][]ended{}, history: map[string][]modelRecord{},
		clocks: map[int64]time.Time{},
	}
	m.lead()
	m.keys = 1 + m.random.IntN(40)
	rules := &m.job.Rules
	rules.SegmentBytes = int64(500 + m.random.IntN(8000))
	rules.TombstoneRetention = time.Duration(m.random.IntN(4)) * time.Minute
	rules.KeepCodec = m.random.IntN(2) == 0
	rules.Codec = Codec{compress.Codec(m.random.IntN(5)), compress.LevelDefault}
	if m.random.IntN(4) == 0 {
		rules.DenseCodec = &Codec{compress.Zstd, 9}
	}
	if m.random.IntN(3) == 0 {
		rules.MaxGarbagePercent = 1 + m.random.IntN(60)
		rules.MaxLag = time.Duration(m.random.IntN(3)) * time.Minute
	}
	if m.random.IntN(3) == 0 { // so little that each window has a segment, and slices overflow
		m.job.Limits.MemoryBytes = int64(1 + m.random.IntN(4000))
	}
	if m.random.IntN(3) == 0 {
		m.job.Limits.Workers, m.job.Limits.Parallel = 3, together
	}
	m.job.Env.Replace = func(sources, cleaned []*segment.Segment) error {
		err := m.replace(sources, cleaned)
		m.checkState()
		return err
	}
	return m
}

// together is Limits.Parallel with goroutines.
func together(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// append appends one random batch, and tells the model of it.
func (m *model) append() {
	producer, transactional := int64(m.random.IntN(4))-1, false
	if producer >= 0 {
		_, open := m.open[producer]
		transactional = open || m.random.IntN(3) == 0
	}
	var records []string
	var keyed []string
	for range 1 + m.random.IntN(1+m.random.IntN(12)) {
		key := fmt.Sprintf("k%d", m.random.IntN(m.keys))
		switch kind := m.random.IntN(20); {
		case kind == 0:
			records, keyed = append(records, "=without a key"), append(keyed, "")
			continue
		case kind < 5:
			records = append(records, key)
		default:
			records = append(records, key+"="+strings.Repeat("v", m.random.IntN(60)))
		}
		keyed = append(keyed, key)
	}
	base, codec := m.next, compress.Codec(m.random.IntN(5))
	if transactional {
		m.txn(producer, codec, records...)
	} else {
		m.batch(codec, record.Identity{ProducerID: producer}, records...)
	}
	for i, key := range keyed {
		if key == "" {
			continue
		}
		r := modelRecord{offset: base + int64(i), tombstone: records[i] == key, producer: -1}
		if transactional {
			r.producer = producer
		}
		m.history[key] = append(m.history[key], r)
	}
	if producer >= 0 {
		m.producers[producer] = m.next - 1
	}
	m.remember(base)
}

// remember notes the texts of the records from base on.
func (m *model) remember(base int64) {
	position, err := m.active().Position(base)
	m.must(err)
	m.must(m.active().Scan(position, func(_ int64, b record.Batch) error {
		return b.Records(1<<20, func(r *record.Record) error {
			m.appended[r.Offset] = text(r)
			return nil
		})
	}))
}

// decide ends one of the open transactions, or writes a marker that ends none.
func (m *model) decide() {
	producer := int64(m.random.IntN(3))
	base, commit := m.next, m.random.IntN(2) == 0
	m.end(producer, commit)
	m.ended[producer] = append(m.ended[producer], ended{base, commit})
	m.remember(base)
}

// cutOff truncates the log somewhere, and the model with it.
func (m *model) cutOff() {
	if m.next == 0 {
		return
	}
	// Below the bound it is an unclean election, which may lose anything, but not bring back what
	// was deleted. Kept rare.
	offset := m.next - m.random.Int64N(min(m.next, 20))
	m.truncate(offset)
	m.truncated = true
	for key, history := range m.history {
		for len(history) > 0 && history[len(history)-1].offset >= m.next {
			history = history[:len(history)-1]
		}
		if m.history[key] = history; len(history) == 0 {
			delete(m.history, key)
		}
	}
	for producer, all := range m.ended {
		for len(all) > 0 && all[len(all)-1].at >= m.next {
			all = all[:len(all)-1]
		}
		m.ended[producer] = all
	}
	for producer, last := range m.producers {
		if last >= m.next {
			delete(m.producers, producer) // as expired: nothing of it need stay
		}
	}
	if m.next < m.known { // what was superseded by what was cut off is gone for good
		m.forget()
	}
	if m.next < m.bounded { // and no clock counts any more
		clear(m.clocks)
	}
	// a segment that is written to again, or a bound that falls, begins some clocks anew
	m.lossy = true
	m.firstDirty = min(m.firstDirty, m.active().Base())
}

// forget takes what is in the log now for all there ever was, after records were lost lawfully.
func (m *model) forget() {
	read := m.records()
	for key, history := range m.history {
		var left []modelRecord
		for _, r := range history {
			if _, there := read[r.offset]; there {
				left = append(left, r)
			}
		}
		if m.history[key] = left; len(left) == 0 {
			delete(m.history, key)
		}
	}
}

// disturb loses or damages something that may be lost.
func (m *model) disturb() {
	s := m.segments[m.random.IntN(len(m.segments))]
	switch m.random.IntN(3) {
	case 0:
		delete(m.dead, s.Base())
	case 1:
		if content := m.dead[s.Base()]; len(content) > 0 {
			content[m.random.IntN(len(content))] ^= 1 << m.random.IntN(8)
		}
	case 2:
		m.must(removed(m.fsys.Remove("/" + segment.Name(s.Base(), keys.Extension, ""))))
		return // made anew, with the same identity
	}
	m.lossy = true
}

// step does one random thing.
func (m *model) step() {
	switch m.random.IntN(20) {
	case 0, 1, 2, 3:
		if m.active().SizeBytes() > 0 {
			m.roll()
		}
	case 4, 5, 6:
		m.now = m.now.Add(time.Duration(m.random.IntN(90)) * time.Second)
		bound, _ := m.bound()
		m.job.Producers = producers(m.producers)
		stats := m.pass()
		m.bounded, m.highest = bound, max(m.highest, bound)
		// all there was is replicated; what lies above the bound has decided on transactions below
		// it
		m.known = m.next
		m.check(bound, stats)
	case 7, 8:
		m.decide()
	case 9:
		switch m.random.IntN(6) {
		case 0:
			m.cutOff()
		case 1:
			m.disturb()
		case 2:
			m.firstDirty = 0 // the checkpoint was lost
		}
	default:
		m.append()
	}
}

// I9 to I17, I20 to I25, I29, X2, X3, F1 to F4
func TestRandomHistoriesAgainstTheModel(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 150 {
				m.step()
			}
			m.checkState()
			if left := m.leftovers(); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}
