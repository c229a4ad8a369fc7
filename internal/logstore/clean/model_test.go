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

var modelRuns = flag.Int("model.runs", 60, "number of random histories")

// model is a naive model of a log: it keeps every record that was ever appended, and the outcomes
// of all transactions.
type model struct {
	*fakeLog
	random    *rand.Rand
	seed      uint64
	keys      int
	producers map[int64]int64 // last data offset, by producer

	// outcomes contains the outcomes of each producer's transactions, by ascending marker offset.
	outcomes map[int64][]outcome
	appended map[int64]string         // text of each appended record, by offset
	history  map[string][]modelRecord // records of each key, by ascending offset
	// removableAt contains, by tombstone offset, the start of the pass after which no older record
	// of the tombstone's key remained.
	removableAt map[int64]time.Time
	// endAtPass is the log end offset at the last pass. Only records and markers below it can have
	// affected what the pass removed.
	endAtPass int64
	boundMax  int64 // highest bound of all passes: no pass has cleaned records at or above it
	lastBound int64 // the last pass's bound, up to which the .dead files were computed
	// lateAllowed is set after a loss of data that restarts the retention of some tombstones. The
	// model does not compute the new retention, and permits late removals instead.
	lateAllowed bool
	// truncated is set if the log was truncated. The last batch below the bound may then end before
	// the bound.
	truncated bool
}

// modelRecord is a record with a key.
type modelRecord struct {
	offset    int64
	tombstone bool
	producer  int64 // producer of the transaction; -1 if the record is not transactional
}

// aborted reports whether a record's transaction was aborted.
func (m *model) aborted(r modelRecord) bool {
	for _, o := range m.outcomes[r.producer] {
		if r.producer >= 0 && r.offset < o.marker {
			return !o.commit
		}
	}
	return false
}

// undecided reports whether a record's transaction is open.
func (m *model) undecided(r modelRecord) bool {
	first, open := m.open[r.producer]
	return r.producer >= 0 && open && r.offset >= first
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		fakeLog: newLog(t), random: rand.New(rand.NewPCG(seed, 0)), seed: seed,
		producers: map[int64]int64{}, appended: map[int64]string{},
		outcomes: map[int64][]outcome{}, history: map[string][]modelRecord{},
		removableAt: map[int64]time.Time{},
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
	// With so little memory, windows have one segment and slices are split.
	if m.random.IntN(3) == 0 {
		m.job.Limits.MemoryBytes = int64(1 + m.random.IntN(4000))
	}
	if m.random.IntN(3) == 0 {
		m.job.Limits.Workers, m.job.Limits.Parallel = 3, parallel
	}
	m.job.Env.Replace = func(sources, cleaned []*segment.Segment) error {
		err := m.replace(sources, cleaned)
		m.checkState()
		return err
	}
	return m
}

// parallel is a Limits.Parallel function that starts a goroutine for each call of do.
func parallel(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// append appends one random batch to the log and the model.
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
	m.addTexts(base)
}

// addTexts adds to the model the texts of all records at and above the offset base.
func (m *model) addTexts(base int64) {
	position, err := m.active().Position(base)
	m.must(err)
	m.must(m.active().Scan(position, func(_ int64, b record.Batch) error {
		return b.Records(1<<20, func(r *record.Record) error {
			m.appended[r.Offset] = text(r)
			return nil
		})
	}))
}

// endTxn ends one of the open transactions, or appends a marker without a transaction.
func (m *model) endTxn() {
	producer := int64(m.random.IntN(3))
	base, commit := m.next, m.random.IntN(2) == 0
	m.end(producer, commit)
	m.outcomes[producer] = append(m.outcomes[producer], outcome{base, commit})
	m.addTexts(base)
}

// truncateNearEnd truncates the log and the model to a random offset near the end.
func (m *model) truncateNearEnd() {
	if m.next == 0 {
		return
	}
	// A truncation below the bound can follow an unclean election. It may lose any record, but a
	// deleted key must not reappear.
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
	for producer, all := range m.outcomes {
		for len(all) > 0 && all[len(all)-1].marker >= m.next {
			all = all[:len(all)-1]
		}
		m.outcomes[producer] = all
	}
	for producer, last := range m.producers {
		if last >= m.next {
			// Treat the producer as expired. Then none of its batches has to remain.
			delete(m.producers, producer)
		}
	}
	// Truncated records may have superseded records that a pass has removed.
	if m.next < m.endAtPass {
		m.adoptLog()
	}
	if m.next < m.lastBound { // the truncation has invalidated all .dead files
		clear(m.removableAt)
	}
	// A .dead file also becomes invalid if records are appended to its segment again, or if the
	// bound is now lower than in the pass that wrote the file.
	m.lateAllowed = true
	m.firstDirty = min(m.firstDirty, m.active().Base())
}

// adoptLog drops from the history the records that are no longer in the log. It is called after a
// truncation, which may lose any record.
func (m *model) adoptLog() {
	read := m.records()
	for key, history := range m.history {
		var left []modelRecord
		for _, r := range history {
			if _, ok := read[r.offset]; ok {
				left = append(left, r)
			}
		}
		if m.history[key] = left; len(left) == 0 {
			delete(m.history, key)
		}
	}
}

// damage removes or damages a file that a log may lose without harm: a .dead file or a sidecar.
func (m *model) damage() {
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
		// The next pass rebuilds the sidecar with the same identity, so the .dead file stays valid.
		return
	}
	m.lateAllowed = true
}

// step executes one random operation.
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
		m.lastBound, m.boundMax = bound, max(m.boundMax, bound)
		// Use the log end and not the bound, because a marker above the bound may have ended a
		// transaction that began below it.
		m.endAtPass = m.next
		m.check(bound, stats)
	case 7, 8:
		m.endTxn()
	case 9:
		switch m.random.IntN(6) {
		case 0:
			m.truncateNearEnd()
		case 1:
			m.damage()
		case 2:
			m.firstDirty = 0 // the checkpoint was lost
		}
	default:
		m.append()
	}
}

// TestRandomHistoriesAgainstTheModel executes random operations on a log and compares it with the
// model after every pass. It covers I9 to I17, I20 to I25, I29, X2, X3 and F1 to F4.
func TestRandomHistoriesAgainstTheModel(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 150 {
				m.step()
			}
			m.checkState()
			if left := m.leftovers(); len(left) > 0 {
				t.Errorf("leftover files: %v", left)
			}
		})
	}
}
