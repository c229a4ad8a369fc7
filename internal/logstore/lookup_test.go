package logstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/lookup"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// wantRecord is the lookup model's description of a record.
type wantRecord struct {
	Offset       int64
	Value        string
	Tombstone    bool
	State        lookup.State
	SupersededBy int64
	Segment      int64
}

// modelOf reads the whole log and returns the key's records, newest first.
func modelOf(t testing.TB, log *Log, key string) (all []wantRecord) {
	t.Helper()
	list := log.list.Acquire()
	defer list.Release()
	type txn struct{ producer, first int64 }
	open, aborted := map[int64]int64{}, map[txn]int64{}
	each := func(visit func(h *segmentlist.Handle, b record.Batch)) {
		for _, h := range list.Handles {
			if err := h.Scan(0, func(_ int64, b record.Batch) error {
				if b.LastOffset() < log.HighWatermark() {
					visit(h, b)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	each(func(_ *segmentlist.Handle, b record.Batch) {
		switch {
		case b.Control():
			if marker, ok, _ := b.Marker(); ok && marker.Type == record.ControlAbort {
				if first, isOpen := open[b.ProducerID()]; isOpen {
					aborted[txn{b.ProducerID(), first}] = b.BaseOffset()
				}
			}
			delete(open, b.ProducerID())
		case b.Transactional():
			if _, isOpen := open[b.ProducerID()]; !isOpen {
				open[b.ProducerID()] = b.BaseOffset()
			}
		}
	})
	each(func(h *segmentlist.Handle, b record.Batch) {
		if b.Control() {
			return
		}
		state := lookup.Live
		for ended, last := range aborted {
			if b.Transactional() && ended.producer == b.ProducerID() && ended.first <= b.BaseOffset() &&
				b.BaseOffset() < last {
				state = lookup.Aborted
			}
		}
		if err := b.Records(1<<20, func(r *record.Record) error {
			if string(r.Key) != key || r.Offset < log.LogStart() {
				return nil
			}
			found := wantRecord{Offset: r.Offset, Value: string(r.Value), Tombstone: r.Tombstone(),
				State: state, Segment: h.Base()}
			if r.Offset >= log.LastStable() {
				found.State = lookup.Undecided
			}
			all = append(all, found)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
	slices.Reverse(all)
	newer := int64(-1)
	for i := range all {
		if all[i].State != lookup.Live {
			continue
		}
		if newer >= 0 {
			all[i].State, all[i].SupersededBy = lookup.Superseded, newer
		} else if all[i].Tombstone {
			all[i].State = lookup.Tombstone
		}
		newer = all[i].Offset
	}
	return all
}

// checkLookup compares a lookup with the model.
func checkLookup(t testing.TB, log *Log, key string, latest bool) (found lookup.Records) {
	t.Helper()
	found, err := lookup.Find(t.Context(), log.Compaction(), []byte(key),
		lookup.Options{ValueBytesMax: 1 << 20,
			Latest: latest})
	if err != nil || !found.Complete {
		t.Fatalf("key %s: complete %t, error %v", key, found.Complete, err)
	}
	want := modelOf(t, log, key)
	var got []wantRecord
	for _, r := range found.Records {
		got = append(got, wantRecord{r.Offset, string(r.Value), r.Tombstone, r.State,
			r.SupersededBy, r.Segment})
	}
	if index := slices.IndexFunc(want, func(r wantRecord) bool {
		return r.State == lookup.Live || r.State == lookup.Tombstone
	}); latest && index >= 0 {
		// The lookup may return further records of the last batch that it read.
		if len(got) <= index || len(got) > len(want) || !reflect.DeepEqual(got, want[:len(got)]) {
			t.Fatalf("key %s, latest: got %+v, want %+v", key, got, want)
		}
		return found
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("key %s: got %+v, want %+v", key, got, want)
	}
	return found
}

// lookupRun applies random changes to a log.
type lookupRun struct {
	t      *testing.T
	random *rand.Rand
	store  *Store
	log    *Log
	now    time.Time
	open   []int64 // producers with an open transaction
	value  int
}

// step executes a random operation: it appends, ends transactions, cleans, deletes, truncates, or
// moves the high watermark.
func (r *lookupRun) step() {
	r.t.Helper()
	switch n := r.random.IntN(20); {
	case n == 0:
		r.store.tick(epoch0, false)
		_, err := r.log.Compaction().Pass(r.t.Context(), compaction.PassOptions{Now: r.now,
			Settings: r.log.Compaction().Settings(), MemoryBytes: 1 << 20,
			Thorough: r.random.IntN(2) == 0})
		if err != nil {
			r.t.Fatal(err)
		}
	case n == 1 && len(r.open) > 0:
		i := r.random.IntN(len(r.open))
		endTxn(r.t, r.log, r.open[i], r.random.IntN(2) == 0)
		r.open = slices.Delete(r.open, i, i+1)
	case n == 2 && len(r.open) < 3:
		producer := int64(100 + r.value)
		for sequence := range int32(1 + r.random.IntN(2)) {
			inTxn(r.t, r.log, producer, sequence, r.key())
		}
		r.open, r.value = append(r.open, producer), r.value+1
	case n == 3 && r.random.IntN(5) == 0 && len(r.open) == 0 && r.log.LogEnd() > 10:
		end := max(r.log.LogStart()+1, r.log.LogEnd()-r.random.Int64N(10))
		r.log.offsets.Restore(r.log.LogStart(), min(end, r.log.HighWatermark()), r.log.LogEnd(),
			&r.log.mu.producers)
		if err := r.log.TruncateTo(end); err != nil {
			r.t.Fatal(err)
		}
	case n == 4 && r.random.IntN(5) == 0:
		if err := r.log.DeleteBefore(min(r.log.LogStart()+r.random.Int64N(5),
			r.log.HighWatermark())); err != nil {
			r.t.Fatal(err)
		}
	case n == 5:
		r.store.tick(epoch0, false)
		updateSidecars(r.log, r.now)
	default:
		b := storetest.Batch{Value: fmt.Sprint(r.value, randomText(80))}
		for range 1 + r.random.IntN(4) {
			b.Keys = append(b.Keys, r.key())
		}
		content := b.Bytes(r.t)
		if r.random.IntN(5) == 0 {
			content = b.Tombstones(r.t)
		}
		appendBatch(r.t, r.log, content)
		r.value++
	}
	r.now = r.now.Add(time.Minute)
}

func (r *lookupRun) key() string { return fmt.Sprint("k", r.random.IntN(12)) }

// TestLookupEqualsScan compares lookups with a scan of the whole log, while records are appended,
// transactions end, and the log is cleaned and truncated.
func TestLookupEqualsScan(t *testing.T) {
	bySidecar, states, clocks := 0, map[lookup.State]int{}, 0
	for s := range seed.Sequence(t, 6) {
		store := openStore(t, vfs.NewMem())
		r := &lookupRun{t: t, random: rand.New(rand.NewPCG(s, 0)), store: store, now: epoch0}
		r.log = createLog(t, store, keyedSettings(func(s *topicconfig.Settings) {
			s.MaxGarbagePercent, s.TombstoneRetention = 50*r.random.IntN(2), 20*time.Minute
		}))
		for range 150 {
			r.step()
			if r.random.IntN(4) == 0 && r.log.HighWatermark() > r.log.LogStart() {
				hw := r.log.HighWatermark()
				r.log.offsets.Restore(r.log.LogStart(), max(r.log.LogStart(), hw-r.random.Int64N(3)),
					r.log.LogEnd(), &r.log.mu.producers)
			}
			found := checkLookup(t, r.log, r.key(), r.random.IntN(2) == 0)
			bySidecar += found.Segments - found.Scanned
			for _, record := range found.Records {
				states[record.State]++
				if record.Clock != nil {
					clocks++
				}
			}
		}
	}
	if testing.Short() {
		return // a few seeds do not have to reach every state
	}
	if bySidecar == 0 || len(states) != 5 || clocks == 0 {
		t.Errorf("%d segments were searched by their sidecars, states %v, %d clocks", bySidecar,
			states, clocks)
	}
}

// TestLookupDuringPasses looks up keys while a pass replaces segments and records are appended.
// Each lookup finds the latest record that was appended before it began, or a later one.
func TestLookupDuringPasses(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(nil))
	const keyCount, updates = 5, 1500
	var appended [keyCount]atomic.Int64 // latest value of each key
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		defer close(done)
		for i := range int64(updates) {
			key := i % keyCount
			content := storetest.Batch{Keys: []string{fmt.Sprint("k", key)},
				Value: fmt.Sprint(i, " ", randomText(80))}.Bytes(t)
			if _, err := log.Append(content, epoch0); err != nil {
				t.Error(err)
				return
			}
			log.AdvanceHighWatermark(log.LogEnd())
			appended[key].Store(i)
		}
	})
	passes := 0
	group.Go(func() {
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			default:
			}
			store.tick(epoch0, false)
			if _, err := compact(context.Background(), log); err != nil && !compaction.IsPassAborted(err) {
				t.Error(err)
				return
			}
			passes++
		}
	})
	lookups := 0
	for ended := false; !ended; lookups++ {
		select {
		case <-done:
			ended = true
		default:
		}
		key := lookups % keyCount
		least := appended[key].Load()
		found, err := lookup.Find(t.Context(), log.Compaction(), fmt.Append(nil, "k", key),
			lookup.Options{ValueBytesMax: 100, Latest: lookups%2 == 0})
		if err != nil || !found.Complete {
			t.Fatalf("complete %t, error %v", found.Complete, err)
		}
		latest := found.Latest()
		if latest == nil {
			if least > 0 {
				t.Fatalf("key %d was not found, although %d was appended", key, least)
			}
			continue
		}
		text, _, _ := strings.Cut(string(latest.Value), " ")
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < least {
			t.Fatalf("key %d: found %q, although %d was appended", key, latest.Value, least)
		}
	}
	group.Wait()
	if passes < 2 || lookups < 2 {
		t.Errorf("%d passes, %d lookups", passes, lookups)
	}
}

// TestLookupIsBounded checks that a lookup that reaches its limit returns the newest records, and
// reports that the result is incomplete.
func TestLookupIsBounded(t *testing.T) {
	store, log := swapLog(t, vfs.NewMem()) // without sidecars
	defer func() { _ = store.Close() }()
	for _, test := range []struct {
		name string
		opts lookup.Options
	}{
		{"bytes", lookup.Options{BytesMax: 1500}},
		{"records", lookup.Options{RecordsMax: 1, BytesMax: 1 << 20}},
	} {
		fill(t, log, 5)
		appendBatch(t, log, keyed(t, "hot"))
		appendBatch(t, log, keyed(t, "hot"))
		found, err := lookup.Find(t.Context(), log.Compaction(), []byte("hot"), test.opts)
		if err != nil || len(found.Records) == 0 {
			t.Errorf("%s: got %+v, error %v", test.name, found, err)
			continue
		}
		if got, want := found.Records[0].Offset, log.LogEnd()-1; got != want {
			t.Errorf("%s: first offset %d, want %d", test.name, got, want)
		}
		if found.Complete || found.ReadBytes > 1<<20 {
			t.Errorf("%s: complete %t, %d bytes read, want a bounded part", test.name,
				found.Complete, found.ReadBytes)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := lookup.Find(ctx, log.Compaction(), []byte("hot"), lookup.Options{}); err != nil ||
		found.Complete || len(found.Records) > 0 {
		t.Errorf("after the end of the context: got %+v, error %v", found, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := lookup.Find(t.Context(), log.Compaction(), []byte("hot"),
		lookup.Options{}); !errors.Is(err,
		ErrClosed) {
		t.Errorf("of a closed log: error %v", err)
	}
}

// TestLookupCutsValues checks that a lookup limits the bytes of each value and of all values
// together, but reports the full sizes.
func TestLookupCutsValues(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(nil))
	for range 4 {
		appendBatch(t, log, storetest.Batch{Keys: []string{"k"}, Value: randomText(100)}.Bytes(t))
	}
	found, err := lookup.Find(t.Context(), log.Compaction(), []byte("k"),
		lookup.Options{ValueBytesMax: 60, ValuesBytesMax: 150})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, r := range found.Records {
		if r.ValueBytes != 100 || r.Value == nil {
			t.Errorf("got %+v", r)
		}
		sizes = append(sizes, len(r.Value))
	}
	if !slices.Equal(sizes, []int{60, 60, 30, 0}) {
		t.Errorf("got values of %v bytes", sizes)
	}
}
