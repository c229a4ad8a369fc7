package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// model is the expected content of a log. The first element of keys has the offset start.
type model struct {
	t       *testing.T
	random  *rand.Rand
	fsys    *vfs.Mem
	store   *Store
	log     *Log
	config  topicconfig.Settings
	now     time.Time
	start   int64
	keys    []string // key of the record at offset start+i; "" for a marker or a gap
	batches []modelBatch
	synced  int64
	appends int
}

// modelBatch is a batch of a model. The model keeps all batches, including batches below the log
// start.
type modelBatch struct {
	base     int64
	records  int64
	producer int64 // producer id; 0 if the batch has none
	txn      bool
	marker   bool // true if the batch is a marker, which ends the producer's transaction
	commit   bool
}

func (b modelBatch) end() int64 { return b.base + b.records }

// TestLogFollowsTheModel applies random appends, transactions, replicated appends, rolls, reads,
// retention, restarts and crashes to a log and to a model, which is a list of records. The log must
// match the model.
func TestLogFollowsTheModel(t *testing.T) {
	for seed := range seed.Sequence(t, 30) {
		// Run in a synctest bubble: an opened log reads the clock, and with the real time it would
		// expire the producers.
		synctest.Test(t, func(t *testing.T) {
			config := settings(func(s *topicconfig.Settings) { s.RetentionBytes = 4000 })
			m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), fsys: vfs.NewMem(),
				config: config, now: time.Now()}
			m.open()
			for range 150 {
				m.step()
				m.check()
			}
			if m.appends < 30 {
				t.Errorf("only %d appends", m.appends)
			}
		})
	}
}

func (m *model) open() {
	m.store = openStore(m.t, m.fsys)
	m.log = createLog(m.t, m.store, m.config)
}

func (m *model) end() int64 { return m.start + int64(len(m.keys)) }

func (m *model) step() {
	time.Sleep(time.Second)
	m.now = time.Now()
	switch n := m.random.IntN(22); {
	case n < 5:
		m.append()
	case n < 8:
		m.transact()
	case n < 9:
		m.endTransaction()
	case n < 11:
		m.replicate()
	case n < 13:
		m.store.tick(m.now, false)
		m.synced = m.end()
	case n < 14:
		m.store.tick(m.now, true)
		m.synced = m.end()
		m.retained()
	case n < 15:
		if err := m.store.Close(); err != nil {
			m.t.Fatal(err)
		}
		m.synced = m.end()
		m.open()
	case n < 16:
		m.crash()
	case n < 17:
		m.deleteBefore()
	case n < 18:
		m.truncate()
	default:
		m.read()
	}
}

// deleteBefore deletes some synced records at the start of the log. It deletes no unsynced records:
// after a crash the log could have lost the state of their producers, which the model does not
// cover.
func (m *model) deleteBefore() {
	if m.synced <= m.start || m.random.IntN(3) > 0 {
		return
	}
	offset := m.start + m.random.Int64N(m.synced-m.start)
	if err := m.log.DeleteBefore(offset); err != nil {
		m.t.Fatal(err)
	}
	m.keys = m.keys[offset-m.start:]
	m.start = offset
}

// truncate truncates the log to a random offset, at the start of a batch or within a batch, and
// leaves at least one batch.
func (m *model) truncate() {
	for index := m.random.IntN(len(m.batches) + 1); index < len(m.batches); index++ {
		b := m.batches[index]
		if index == 0 || m.batches[index-1].end() <= m.start {
			continue
		}
		if err := m.log.TruncateTo(b.base + m.random.Int64N(b.records)); err != nil {
			m.t.Fatal(err)
		}
		below := m.batches[index-1].end()
		m.synced = min(m.synced, below) // the batch that fills a gap above below is not synced
		if m.removeFrom(b.base); below < b.base {
			m.batches = append(m.batches, modelBatch{base: below, records: b.base - below})
		}
		return
	}
}

// removeFrom removes the batches at or above the offset end from the model. The offset must be the
// base offset of a batch or the log end.
func (m *model) removeFrom(end int64) {
	m.keys = m.keys[:end-m.start]
	m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.base >= end })
}

// sequenceOf returns the next sequence number of a producer.
func (m *model) sequenceOf(producer int64) (next int32) {
	for _, b := range m.batches {
		if b.producer == producer && !b.marker {
			next += int32(b.records)
		}
	}
	return next
}

// transactions returns the first offset of each producer's open transaction, and the offsets of the
// records of aborted transactions.
func (m *model) transactions() (open map[int64]int64, aborted map[int64]bool) {
	open, aborted = map[int64]int64{}, map[int64]bool{}
	for i, b := range m.batches {
		first, isOpen := open[b.producer]
		switch {
		case b.txn && !isOpen:
			open[b.producer] = b.base
		case b.marker && isOpen:
			for _, entry := range m.batches[:i] {
				for offset := entry.base; !b.commit && entry.producer == b.producer && entry.base >= first &&
					offset < entry.end(); offset++ {
					aborted[offset] = true
				}
			}
			delete(open, b.producer)
		}
	}
	return open, aborted
}

// add updates the model after an append at the log end.
func (m *model) add(b modelBatch, keys ...string) {
	m.appends++
	m.batches = append(m.batches, b)
	m.keys = append(m.keys, keys...)
	m.log.AdvanceHighWatermark(m.end())
}

func (m *model) transact() {
	batch := storetest.Batch{Producer: 11 + m.random.Int64N(2), Keys: []string{"t", "u"},
		Value: "of a transaction", Timestamp: m.now, Transactional: true}
	batch.Sequence = m.sequenceOf(batch.Producer)
	appended, err := m.log.AppendVerified(batch.Bytes(m.t), verified, m.now)
	if err != nil || appended.BaseOffset != m.end() || appended.Duplicate {
		m.t.Fatalf("%+v, %v; the end is %d", appended, err, m.end())
	}
	m.add(modelBatch{base: m.end(), records: 2, producer: batch.Producer, txn: true}, batch.Keys...)
}

// endTransaction writes a marker, even if the producer has no open transaction.
func (m *model) endTransaction() {
	end := EndTxn{ProducerID: 11 + m.random.Int64N(2), Commit: m.random.IntN(2) == 0}
	if appended, err := m.log.AppendControl(end, m.now); err != nil ||
		appended.BaseOffset != m.end() {
		m.t.Fatalf("%+v, %v; the end is %d", appended, err, m.end())
	}
	m.add(modelBatch{base: m.end(), records: 1, producer: end.ProducerID, marker: true,
		commit: end.Commit}, "")
}

// replicate appends a batch as if it was fetched from a leader, in one case of three after an
// offset gap.
func (m *model) replicate() {
	gap := max(0, m.random.Int64N(12)-8)
	keys := []string{"r", "s", "t"}
	b := record.Batch(storetest.Batch{Producer: 5, Sequence: m.sequenceOf(5), Keys: keys,
		Value: "of a leader", Timestamp: m.now}.Bytes(m.t))
	b.SetBaseOffset(m.end() + gap)
	if err := m.log.AppendReplicated(b, m.now); err != nil {
		m.t.Fatal(err)
	}
	for range gap {
		m.keys = append(m.keys, "")
	}
	m.add(modelBatch{base: m.end(), records: 3, producer: 5}, keys...)
}

func (m *model) append() {
	var keys []string
	for range 1 + m.random.IntN(6) {
		keys = append(keys, fmt.Sprintf("k%d", m.random.IntN(100)))
	}
	batch := storetest.Batch{Producer: 5, Sequence: m.sequenceOf(5), Keys: keys,
		Value: string(make([]byte, m.random.IntN(100))), Timestamp: m.now}
	if m.random.IntN(8) == 0 && batch.Sequence > 0 {
		batch.Sequence += 3
		if _, err := m.log.Append(batch.Bytes(m.t), m.now); !errors.Is(err, ErrOutOfOrderSequence) {
			m.t.Fatalf("a gap in sequences: %v", err)
		}
		return
	}
	appended, err := m.log.Append(batch.Bytes(m.t), m.now)
	if err != nil || appended.BaseOffset != m.end() || appended.Duplicate {
		m.t.Fatalf("%+v, %v; the end is %d", appended, err, m.end())
	}
	again, err := m.log.Append(batch.Bytes(m.t), m.now)
	if err != nil || again.BaseOffset != appended.BaseOffset ||
		again.LastOffset != appended.LastOffset || !again.Duplicate {
		m.t.Fatalf("the same batch again: %+v, %v", again, err)
	}
	m.add(modelBatch{base: m.end(), records: int64(len(keys)), producer: 5}, keys...)
}

// retained checks that retention has deleted as many records as the settings require, and removes
// these records from the model.
func (m *model) retained() {
	start := m.log.LogStart()
	size := m.log.Stats().SizeBytes
	if start < m.start || start > m.end() {
		m.t.Fatalf("log start moved from %d to %d of %d", m.start, start, m.end())
	}
	if start > m.start && size < m.config.RetentionBytes {
		m.t.Fatalf("retention left %d bytes", size)
	}
	first := bases(m.log)
	if len(first) > 1 && size-sourcesOf(m.log, 0, 1)[0].SizeBytes() >= m.config.RetentionBytes {
		m.t.Fatalf("retention kept %d bytes", size)
	}
	m.keys = m.keys[start-m.start:]
	m.start = start
}

// crash opens the log on the disk that a power failure left. It removes unsynced batches that the
// power failure has lost from the model.
func (m *model) crash() {
	m.fsys = crash(m.fsys, m.random.Uint64N(10))
	m.open()
	end := m.log.LogEnd()
	if end < m.synced || end > m.end() {
		m.t.Fatalf("log end after a crash is %d, synced %d, appended %d", end, m.synced, m.end())
	}
	if start := m.log.LogStart(); start != m.start && start != m.log.list.Load().Handles[0].Base() {
		m.t.Fatalf("log start after a crash is %d, was %d", start, m.start)
	}
	if end < m.end() && !slices.ContainsFunc(m.batches,
		func(b modelBatch) bool { return b.base == end || b.end() == end }) && end != 0 {
		m.t.Fatalf("log end after a crash is %d, within a batch", end)
	}
	m.removeFrom(end)
	m.log.AdvanceHighWatermark(end)
	m.synced = end
}

func (m *model) check() {
	m.t.Helper()
	stats := m.log.Stats()
	if stats.LogEnd != m.end() || stats.LogStart != m.start || stats.HighWatermark != m.end() {
		m.t.Fatalf("%+v, want [%d, %d)", stats, m.start, m.end())
	}
	// low and high are the limits of the last stable offset. The log may use the first offset of a
	// transaction, or the offset of the transaction's first batch above the log start. It knows the
	// latter only if it has read the batches again.
	open, _ := m.transactions()
	low, high := m.end(), m.end()
	for producer := range int64(20) {
		first, isOpen := open[producer]
		left := slices.IndexFunc(m.batches, func(b modelBatch) bool {
			return isOpen && b.producer == producer && b.base >= first && b.end() > m.start
		})
		if left >= 0 {
			low, high = min(low, first), min(high, m.batches[left].base)
		}
		if m.log.Producers().HasOpenTransaction(producer, 0) != (left >= 0) {
			m.t.Fatalf("open transaction of producer %d: want %t", producer, left >= 0)
		}
	}
	low, high = max(low, m.start), max(high, m.start)
	if stats.LastStable < low || stats.LastStable > high {
		m.t.Fatalf("%+v, want stable up to [%d, %d]", stats, low, high)
	}
}

func (m *model) read() {
	offset := m.start + m.random.Int64N(int64(len(m.keys))+1)
	got := readKeys(m.t, m.log, offset) // including markers
	got = slices.DeleteFunc(got, func(record string) bool {
		head, _, _ := strings.Cut(record, "=")
		offset, err := strconv.ParseInt(head, 10, 64)
		return err == nil && m.keys[offset-m.start] == ""
	})
	_, aborted := m.transactions()
	var want, committed []string
	for i := offset; i < m.end(); i++ {
		if m.keys[i-m.start] == "" {
			continue
		}
		want = append(want, fmt.Sprintf("%d=%s", i, m.keys[i-m.start]))
		if i < m.log.LastStable() && !aborted[i] {
			committed = append(committed, want[len(want)-1])
		}
	}
	stable := committedKeys(m.t, m.log, offset)
	// committedKeys also returns the records of the first batch below the offset. Remove them.
	stable = stable[max(0, len(stable)-len(committed)):]
	if !slices.Equal(stable, committed) {
		m.t.Fatalf("committed from %d: %v, want %v", offset, got, committed)
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("read from %d: %v, want %v", offset, got, want)
	}
	m.readSome(offset)
}

// readSome reads once with a random limit, as a consumer and as a replica. It checks the first and
// the last batch of each result.
func (m *model) readSome(offset int64) {
	limits := []int64{m.end()}
	for _, b := range m.batches {
		limits = append(limits, b.base)
	}
	limit := limits[m.random.IntN(len(limits))]
	bytesMax, whole := m.random.IntN(2000), m.random.IntN(2) == 0
	slice, err := m.log.Read(offset, limit, bytesMax, whole)
	if offset > limit {
		if !errors.Is(err, ErrOffsetOutOfRange) {
			m.t.Fatalf("read at %d above the limit %d: %v", offset, limit, err)
		}
		return
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.checkSlice(slice, offset, limit, bytesMax, whole, false)
	if slice, err = m.log.ReadReplica(offset, bytesMax, whole); err != nil {
		m.t.Fatal(err)
	}
	m.checkSlice(slice, offset, m.end(), bytesMax, whole, true)
}

// firstBatch returns the batch that a read from offset must return first: the first batch below the
// limit that ends above offset. If this batch is a filled gap, which contains no record, a consumer
// receives it only if no other batch follows. A replica always receives it.
func (m *model) firstBatch(offset, limit int64, replica bool) (first modelBatch, found bool) {
	for _, b := range m.batches {
		if b.end() <= offset || b.end() > limit {
			continue
		}
		first, found = b, true
		if b.producer != 0 || replica {
			break
		}
	}
	return first, found
}

func (m *model) checkSlice(slice *Slice, offset, limit int64, bytesMax int, whole, replica bool) {
	defer slice.Release()
	first, found := m.firstBatch(offset, limit, replica)
	batches := batchesOf(m.t, slice)
	if len(batches) == 0 {
		if whole && found {
			m.t.Fatalf("read nothing at %d of %d, where %+v is", offset, limit, first)
		}
		return
	}
	switch b := batches[0]; {
	case slice.Length > bytesMax && (!whole || len(batches) > 1):
		m.t.Fatalf("%d bytes, limit %d", slice.Length, bytesMax)
	case !found || b.BaseOffset() != first.base || b.LastOffset() != first.end()-1:
		m.t.Fatalf("read at %d below %d (replica %t) begins with [%d, %d], want %+v", offset, limit,
			replica, b.BaseOffset(), b.LastOffset(), first)
	case batches[len(batches)-1].LastOffset() >= limit:
		m.t.Fatalf("read below %d ends at %d", limit, batches[len(batches)-1].LastOffset())
	}
}
