package cleaner

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

func TestSlotsAreFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots workerSlots
		slots.resize(1)
		if !slots.tryAcquire() || slots.tryAcquire() {
			t.Fatal("the only slot was not granted exactly once")
		}
		var order []int
		for i := range 3 {
			go func() {
				if err := slots.acquire(t.Context()); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				slots.release(1)
			}()
			synctest.Wait()
		}
		if !slots.contended() {
			t.Error("three callers wait, but contended returns false")
		}
		slots.release(1)
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[0 1 2]" {
			t.Errorf("served in the order %s", got)
		}
		if busy, idle := slots.usage(); busy != 0 || idle != 1 {
			t.Errorf("%d busy, %d idle at the end", busy, idle)
		}
	})
}

func TestCancelledWaitLosesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots workerSlots
		slots.resize(2)
		var have atomic.Int64
		for i := range 200 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
				defer cancel()
				if slots.acquire(ctx) != nil {
					return
				}
				if n := have.Add(1); n > 2 {
					t.Errorf("%d callers hold one of two slots", n)
				}
				time.Sleep(time.Duration(i%3) * time.Millisecond)
				have.Add(-1)
				slots.release(1)
			}()
		}
		wait(time.Second)
		if busy, idle := slots.usage(); busy != 0 || idle != 2 || slots.contended() {
			t.Errorf("%d busy, %d idle", busy, idle)
		}
	})
}

func TestSlotsAreWithdrawnAtTheEndOfTimeSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slots workerSlots
		slots.resize(3)
		held := make([]heldSlots, 3)
		for i := range held {
			held[i].slots = &slots
			if !held[i].tryAcquire() {
				t.Fatal("no free slot")
			}
		}
		slots.resize(1)
		for i := range held[:2] {
			go func() {
				if err := held[i].used(t.Context(), sliceBytes); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		if busy, _ := slots.usage(); busy != 1 || held[0].held.Load()+held[1].held.Load() != 0 {
			t.Errorf("%d slots are busy of one", busy)
		}
		for i := range held { // release the third first; the others then get the slot in turn
			held[2-i].releaseAll()
			synctest.Wait()
		}
		for i := range held {
			held[i].releaseAll()
		}
		if busy, idle := slots.usage(); busy != 0 || idle != 1 {
			t.Errorf("%d busy, %d idle at the end", busy, idle)
		}
	})
}

// another creates another partition of the topic.
func (f *fixture) another(index int32, config topicconfig.Settings) *logstore.Log {
	f.t.Helper()
	log, err := f.store.Create(logstore.PartitionID{Topic: "tickets", Index: index}, topicOne,
		config, true)
	if err != nil {
		f.t.Fatal(err)
	}
	return log
}

// fillWith appends n records of 200 bytes in batches of ten. It repeats the given number of keys in
// turn.
func (f *fixture) fillWith(log *logstore.Log, n, keys int) {
	f.t.Helper()
	value := strings.Repeat("v", 200)
	for i := 0; i < n; i += 10 {
		batch := storetest.Batch{Value: value, Timestamp: time.Now()}
		for j := range 10 {
			batch.Keys = append(batch.Keys, fmt.Sprintf("key %d", (i+j)%keys))
		}
		if _, err := log.Append(batch.Bytes(f.t), time.Now()); err != nil {
			f.t.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// TestLargeLogDoesNotDelaySmallLog checks that with one worker slot, a pass over a large log, which
// takes an hour, does not delay a short pass over a small log. In Kafka it does.
func TestLargeLogDoesNotDelaySmallLog(t *testing.T) {
	large := compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 1 << 20 })
	inBubble(t, large, Options{IOBytesRate: 2048}, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 20_000, 5_000) // four megabytes, which take more than half an hour to read
		f.until(time.Hour, "a pass over the large log",
			func() bool { return f.cleaner.Status(partition).Reason == reasonCleaning })
		small := f.another(1, compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 5_000 }))
		f.fillWith(small, 60, 10)
		began := time.Now()
		f.until(time.Hour, "a pass over the small log",
			func() bool { return f.cleaner.Status(small.ID()).Runs[runSuccess] > 0 })
		if took := time.Since(began); took > 10*time.Minute {
			t.Errorf("the small log waited for %s", took)
		}
		if status := f.cleaner.Status(partition); status.Reason != reasonCleaning ||
			status.Runs[runSuccess]+status.Runs[runAborted] > 0 {
			t.Errorf("large log %+v, want a running pass", status)
		}
	})
}

// until waits for a condition, and fails the test if the condition does not become true within the
// limit.
func (f *fixture) until(limit time.Duration, what string, condition func() bool) {
	f.t.Helper()
	for began := time.Now(); !condition(); wait(limit / 2000) {
		if time.Since(began) > limit {
			f.t.Fatalf("no %s within %s; status %+v", what, limit, f.cleaner.Status(partition))
		}
	}
}

func TestWorkersShareOneBudget(t *testing.T) {
	const workers, limit = 3, 1 << 20
	config := compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 200_000 })
	opts := Options{Workers: workers, MemoryBytes: limit, IOBytesRate: 100_000}
	inBubble(t, config, opts, func(t *testing.T, f *fixture) {
		logs := []*logstore.Log{f.log}
		for i := range int32(5) {
			logs = append(logs, f.another(i+1, config))
		}
		for _, log := range logs {
			f.fillWith(log, 5_000, 1_000)
		}
		busiest, most, held := 0, 0, int64(0)
		f.until(time.Hour, "a pass over every log", func() bool {
			busy, _ := f.cleaner.slots.usage()
			busiest = max(busiest, busy)
			passes, done := 0, 0
			for _, log := range logs {
				status := f.cleaner.Status(log.ID())
				if status.Reason == reasonCleaning {
					passes++
				}
				done += int(min(1, status.Runs[runSuccess]))
			}
			most = max(most, passes)
			now, position := f.cleaner.memoryBytes()
			if held = max(held, now); now > position || position != limit || busy > workers {
				t.Fatalf("%d bytes held of %d, %d workers busy of %d", now, position, busy, workers)
			}
			return done == len(logs)
		})
		if busiest != workers || most < workers || held == 0 {
			t.Errorf("%d workers were busy, %d passes ran at once, %d bytes were held", busiest,
				most, held)
		}
		f.cleaner.mu.Lock()
		passes, granted, waiting := f.cleaner.mu.passes, f.cleaner.mu.grantedBytes,
			f.cleaner.mu.waiting
		f.cleaner.mu.Unlock()
		if busy, _ := f.cleaner.slots.usage(); passes+waiting+busy != 0 || granted != 0 {
			t.Errorf("%d passes, %d waiting, %d slots and %d bytes are not released", passes,
				waiting,
				busy, granted)
		}
		for _, log := range logs {
			if n := len(readKeys(t, log, 0)); n > 1_000+1_100 { // 1,100 are in the active segment
				t.Errorf("%s: %d records are left of 1000 keys", log.ID(), n)
			}
		}
	})
}

func TestFreeSlotsResolveHashSlicesOfOnePass(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.SegmentBytes = 200_000 })
	opts := Options{Workers: 4, MemoryBytes: 256 << 10, IOBytesRate: 20_000}
	inBubble(t, config, opts, func(t *testing.T, f *fixture) {
		f.fillWith(f.log, 20_000, 4_000)
		busiest := 0
		f.until(time.Hour, "a successful pass", func() bool {
			if f.cleaner.Status(partition).Phase == "deduplicating" {
				busy, _ := f.cleaner.slots.usage()
				busiest = max(busiest, busy)
			}
			return f.cleaner.Status(partition).Runs[runSuccess] > 0
		})
		if busiest != 4 {
			t.Errorf("%d slots resolved the hash slices of the only log, want 4", busiest)
		}
		if n := len(readKeys(t, f.log, 0)); n > 4_000+1_000 {
			t.Errorf("%d records are left of 4000 keys", n)
		}
	})
}

func TestGrantsLeaveMemoryForOthers(t *testing.T) {
	c := newIdle(nil, Options{Workers: 2, MemoryBytes: 128 << 20, Logger: quiet()})
	all := c.options().passesMemoryBytes()
	for i := range 40 {
		bytes, enough := c.grantLocked(1 << 40)
		if !enough {
			if i < 5 {
				t.Errorf("only %d large logs get memory", i)
			}
			break
		}
		c.mu.passes++
		if c.mu.grantedBytes += bytes; c.mu.grantedBytes > all || bytes > all/2 {
			t.Fatalf("grant %d of %d bytes, %d of %d", i, bytes, c.mu.grantedBytes, all)
		}
		if small, enough := c.grantLocked(10_000); !enough || small > 10_000 {
			t.Errorf("%d large logs leave no memory for a small one", i+1)
		}
	}
	c.mu.passes, c.mu.grantedBytes = 0, 0
	c.mu.opts.MemoryBytes = 1
	if bytes, enough := c.grantLocked(1 << 40); !enough || bytes < 1 {
		t.Error("a pass that runs alone gets no memory")
	}
}
