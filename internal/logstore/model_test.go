package logstore

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

var modelSeed = flag.Uint64("seed", 0, "run the model test with this seed only")

// model is what a log should hold: a list of keys, the first of which has the offset start.
type model struct {
	t        *testing.T
	random   *rand.Rand
	fsys     *vfs.Mem
	store    *Store
	log      *Log
	config   topicconfig.Settings
	now      time.Time
	start    int64
	keys     []string // keys[i] has the offset start+i
	batches  []int64  // where batches begin
	synced   int64
	sequence int32
	appends  int
}

// Random appends, rolls, reads, retention, restarts and crashes, against a list.
func TestLogFollowsTheModel(t *testing.T) {
	for run := range 30 {
		seed := uint64(time.Now().UnixNano()) + uint64(run)
		if *modelSeed != 0 {
			seed = *modelSeed
		}
		// In a bubble, for a log takes the time from the clock when it is opened, and must not find its producers expired.
		synctest.Test(t, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			config := settings(func(s *topicconfig.Settings) { s.RetentionBytes = 4000 })
			m := &model{t: t, random: rand.New(rand.NewPCG(seed, 0)), fsys: vfs.NewMem(), config: config, now: time.Now()}
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
	case n < 11:
		m.append()
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

// deleteBefore gives up some records at the front. No further than what was synced: above it a crash may take the producer's last
// batch, of which the model would have to know.
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

// truncate cuts off the end, within a batch or between two, and leaves one at least.
func (m *model) truncate() {
	ends := slices.DeleteFunc(slices.Clone(m.batches), func(base int64) bool { return base <= m.start })
	if len(ends) == 0 {
		return
	}
	at := m.random.IntN(len(ends))
	within := m.end() - ends[at]
	if at+1 < len(ends) {
		within = ends[at+1] - ends[at]
	}
	if err := m.log.TruncateTo(ends[at] + m.random.Int64N(within)); err != nil {
		m.t.Fatal(err)
	}
	m.cut(ends[at])
	m.synced = min(m.synced, m.end())
}

// cut drops what lies at or above end, where a batch begins or the log ends.
func (m *model) cut(end int64) {
	m.sequence -= int32(m.end() - end)
	m.keys = m.keys[:end-m.start]
	m.batches = slices.DeleteFunc(m.batches, func(base int64) bool { return base >= end })
}

func (m *model) append() {
	var keys []string
	for range 1 + m.random.IntN(6) {
		keys = append(keys, fmt.Sprintf("k%d", m.random.IntN(100)))
	}
	batch := sent{producer: 5, sequence: m.sequence, keys: keys, value: string(make([]byte, m.random.IntN(100))), timestamp: m.now}
	if m.random.IntN(8) == 0 && m.sequence > 0 {
		batch.sequence += 3
		if _, err := m.log.Append(batch.bytes(m.t), m.now); !errors.Is(err, ErrOutOfOrderSequence) {
			m.t.Fatalf("a gap in sequences: %v", err)
		}
		return
	}
	appended, err := m.log.Append(batch.bytes(m.t), m.now)
	if err != nil || appended.BaseOffset != m.end() || appended.Duplicate {
		m.t.Fatalf("%+v, %v; the end is %d", appended, err, m.end())
	}
	again, err := m.log.Append(batch.bytes(m.t), m.now)
	if err != nil || again.BaseOffset != appended.BaseOffset || again.LastOffset != appended.LastOffset || !again.Duplicate {
		m.t.Fatalf("the same batch again: %+v, %v", again, err)
	}
	m.appends++
	m.batches = append(m.batches, m.end())
	m.keys = append(m.keys, keys...)
	m.sequence += int32(len(keys))
	m.log.AdvanceHighWatermark(m.end())
}

// retained takes over what retention did, after checking that it did what it should.
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

// crash loses what was not synced, from some batch on.
func (m *model) crash() {
	m.fsys = crash(m.fsys, m.random.Uint64N(10))
	m.open()
	end := m.log.LogEnd()
	if end < m.synced || end > m.end() {
		m.t.Fatalf("log end after a crash is %d, synced %d, appended %d", end, m.synced, m.end())
	}
	if start := m.log.LogStart(); start != m.start && start != m.log.list.Load().handles[0].Base() {
		m.t.Fatalf("log start after a crash is %d, was %d", start, m.start)
	}
	if end < m.end() && !slices.Contains(m.batches, end) {
		m.t.Fatalf("log end after a crash is %d, within a batch", end)
	}
	m.cut(end)
	m.log.AdvanceHighWatermark(end)
	m.synced = end
}

func (m *model) check() {
	m.t.Helper()
	stats := m.log.Stats()
	if stats.LogEnd != m.end() || stats.LogStart != m.start || stats.HighWatermark != m.end() {
		m.t.Fatalf("%+v, want [%d, %d)", stats, m.start, m.end())
	}
}

func (m *model) read() {
	offset := m.start + m.random.Int64N(int64(len(m.keys))+1)
	got := readKeys(m.t, m.log, offset)
	var want []string
	for i := offset; i < m.end(); i++ {
		want = append(want, fmt.Sprintf("%d=%s", i, m.keys[i-m.start]))
	}
	if !slices.Equal(got, want) {
		m.t.Fatalf("read from %d: %v, want %v", offset, got, want)
	}
	m.readSome(offset)
}

// readSome checks the bounds of one read.
func (m *model) readSome(offset int64) {
	limits := append(slices.Clone(m.batches), m.end())
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
	defer slice.Release()
	batches := batchesOf(m.t, slice)
	switch {
	case len(batches) == 0:
		if offset < limit && whole {
			m.t.Fatalf("nothing at %d of %d", offset, limit)
		}
	case slice.Length > bytesMax && (!whole || len(batches) > 1):
		m.t.Fatalf("%d bytes, %d were wanted", slice.Length, bytesMax)
	case batches[0].BaseOffset() > offset || batches[0].LastOffset() < offset:
		m.t.Fatalf("read at %d begins with [%d, %d]", offset, batches[0].BaseOffset(), batches[0].LastOffset())
	case batches[len(batches)-1].LastOffset() >= limit:
		m.t.Fatalf("read below %d goes to %d", limit, batches[len(batches)-1].LastOffset())
	}
}
