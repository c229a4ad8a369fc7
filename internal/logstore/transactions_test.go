package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

var verified = Verified{Transaction: true}

// inTxn appends one record in a transaction of a producer, and advances the high watermark to the
// log end.
func inTxn(t testing.TB, log *Log, producer int64, sequence int32, key string) Appended {
	t.Helper()
	appended, err := log.AppendVerified(storetest.Batch{Producer: producer, Sequence: sequence,
		Keys: []string{key}, Transactional: true}.Bytes(t), verified, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
	return appended
}

// endTxn appends the marker that ends a producer's transaction, and advances the high watermark to
// the log end.
func endTxn(t testing.TB, log *Log, producer int64, commit bool) Appended {
	t.Helper()
	appended, err := log.AppendControl(EndTxn{ProducerID: producer, Commit: commit}, epoch0)
	if err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
	return appended
}

// committedKeys returns "offset=key" for the records that a read_committed consumer reads. Like
// Kafka's Fetcher, it skips the transactions in Slice.Aborted.
func committedKeys(t testing.TB, log *Log, offset int64) []string {
	t.Helper()
	keys := []string{}
	for offset < log.LastStable() {
		slice, err := log.ReadCommitted(offset, log.LogEnd(), 300, true)
		if err != nil {
			t.Fatalf("read at %d: %v", offset, err)
		}
		pending := slices.Clone(slice.Aborted)
		slices.SortStableFunc(pending,
			func(a, b segment.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
		aborted := map[int64]bool{}
		for _, b := range batchesOf(t, slice) {
			for len(pending) > 0 && pending[0].FirstOffset <= b.LastOffset() {
				aborted[pending[0].ProducerID] = true
				pending = pending[1:]
			}
			offset = b.NextOffset()
			if b.Control() {
				if m, ok, err := b.Marker(); err != nil || !ok {
					t.Fatalf("marker at %d: %v", b.BaseOffset(), err)
				} else if m.Type == record.ControlAbort {
					delete(aborted, b.ProducerID())
				}
				continue
			}
			if b.Transactional() && aborted[b.ProducerID()] {
				continue
			}
			err := b.Records(1<<20, func(r *record.Record) error {
				keys = append(keys, fmt.Sprintf("%d=%s", r.Offset, r.Key))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if slice.Length == 0 {
			t.Fatalf("a read at %d of %d returned nothing", offset, log.LastStable())
		}
		slice.Release()
	}
	return keys
}

func newLogForTest(t testing.TB) (*vfs.Mem, *Store, *Log) {
	t.Helper()
	mem := vfs.NewMem()
	store := openStore(t, mem)
	return mem, store, createLog(t, store, settings(nil))
}

func TestLastStableOffsetFollowsTransactions(t *testing.T) {
	_, _, log := newLogForTest(t)
	want := func(stage string, stable int64) {
		t.Helper()
		if got := log.LastStable(); got != stable {
			t.Fatalf("%s: last stable offset %d, want %d", stage, got, stable)
		}
	}
	fill(t, log, 2)
	want("plain records", 2)
	inTxn(t, log, 7, 0, "a")
	fill(t, log, 1)
	want("7 open from 2", 2)
	inTxn(t, log, 8, 0, "b") // 4
	inTxn(t, log, 7, 1, "c") // 5
	want("8 open too", 2)
	endTxn(t, log, 7, true) // 6
	want("8 still open", 4)
	endTxn(t, log, 8, false) // 7
	want("none open", 8)
	if got := committedKeys(t, log, 0); !slices.Equal(got,
		[]string{"0=k0", "1=k1", "2=a", "3=k3", "5=c"}) {
		t.Errorf("read %v", got)
	}
}

// TestLastStableOffsetWaitsForReplicatedMarker checks that a marker that is not yet replicated has
// no effect, because the next leader may end the transaction differently. So the last stable offset
// passes a transaction only once the transaction's marker is replicated (KIP-98).
func TestLastStableOffsetWaitsForReplicatedMarker(t *testing.T) {
	_, _, log := newLogForTest(t)
	add := func(producer int64, sequence int32) {
		t.Helper()
		b := storetest.Batch{Producer: producer, Sequence: sequence, Keys: []string{"k"},
			Transactional: true}.Bytes(t)
		if _, err := log.AppendVerified(b, verified, epoch0); err != nil {
			t.Fatal(err)
		}
	}
	end := func(producer int64) {
		t.Helper()
		if _, err := log.AppendControl(EndTxn{ProducerID: producer}, epoch0); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 0) // 0
	add(2, 0) // 1
	end(2)    // 2
	add(3, 0) // 3
	end(1)    // 4
	end(3)    // 5
	add(4, 0) // 6
	for high, want := range []int64{0, 0, 0, 0, 0, 3, 6, 6} {
		log.AdvanceHighWatermark(int64(high))
		if got := log.LastStable(); got != want {
			t.Errorf("high watermark %d: last stable offset %d, want %d", high, got, want)
		}
	}
}

// TestMarkerWithoutDataHasNoIndexEntry checks that a marker of a producer without an open
// transaction adds no entry to the transaction index (KAFKA-10702).
func TestMarkerWithoutDataHasNoIndexEntry(t *testing.T) {
	_, store, log := newLogForTest(t)
	for range 50 {
		endTxn(t, log, 9, false)
	}
	if got := log.LastStable(); got != 50 {
		t.Errorf("last stable offset %d", got)
	}
	store.tick(epoch0, false)
	for _, s := range sourcesOf(log, 0, len(bases(log))) {
		if s.AbortedCount() > 0 {
			t.Errorf("segment %d has %d entries", s.Base(), s.AbortedCount())
		}
	}
}

func TestTransactionRules(t *testing.T) {
	data := func(epoch int16, sequence int32, txn bool, verified Verified) func(*Log) error {
		return func(log *Log) error {
			b := storetest.Batch{Producer: 7, Epoch: epoch, Sequence: sequence, Keys: []string{"k"},
				Transactional: txn}.Bytes(t)
			_, err := log.AppendVerified(b, verified, epoch0)
			return err
		}
	}
	marker := func(end EndTxn) func(*Log) error {
		return func(log *Log) error {
			end.ProducerID = 7
			_, err := log.AppendControl(end, epoch0)
			return err
		}
	}
	none, bump := Verified{}, Verified{Transaction: true, EpochBump: true}
	type act struct {
		do   func(*Log) error
		want error
	}
	for name, acts := range map[string][]act{
		"KIP-890: an unverified transaction is rejected": {{data(0, 0, true, none), ErrInvalidTxnState}},
		"KIP-890: an open transaction needs no verification": {{data(0, 0, true, verified), nil},
			{data(0, 1, true, none), nil}},
		"KIP-890: a batch after the marker of its transaction is rejected": {
			{data(0, 0, true, verified), nil}, {marker(EndTxn{}), nil},
			{data(0, 1, true, none), ErrInvalidTxnState},
		},
		"KIP-890: an open transaction of another epoch does not replace verification": {
			{data(0, 0, true, verified), nil}, {data(1, 0, true, none), ErrInvalidTxnState},
		},
		"KIP-98: a repeated batch within a transaction is a duplicate": {{data(0, 0, true,
			verified), nil},
			{data(0, 0, true, none), nil}},
		"KIP-98: no other writes in a transaction": {{data(0, 0, true, verified), nil},
			{data(0, 1, false, none), ErrInvalidTxnState}},
		"KIP-98: other writes are accepted after the transaction": {
			{data(0, 0, true, verified), nil}, {marker(EndTxn{Commit: true}), nil},
			{data(0, 1, false, none), nil},
		},
		"KIP-98: a marker fences older epochs": {{marker(EndTxn{ProducerEpoch: 3}), nil},
			{data(2, 0, true, verified), ErrInvalidProducerEpoch}},
		"KIP-98: a marker of an older epoch is rejected": {
			{data(3, 0, true, verified), nil},
			{marker(EndTxn{ProducerEpoch: 2}), ErrInvalidProducerEpoch},
			{marker(EndTxn{ProducerEpoch: 3}), nil},
		},
		"KIP-98: an older coordinator is fenced": {
			{marker(EndTxn{CoordinatorEpoch: 5}), nil},
			{marker(EndTxn{CoordinatorEpoch: 4}), ErrCoordinatorFenced},
			{marker(EndTxn{CoordinatorEpoch: 5}), nil}, {marker(EndTxn{CoordinatorEpoch: 6}), nil},
		},
		"KIP-890: a version 2 marker must have a new epoch": {
			{data(0, 0, true, bump), nil}, {marker(EndTxn{Version: 2}), ErrInvalidProducerEpoch},
			{marker(EndTxn{ProducerEpoch: 1, Version: 2}), nil},
			{data(1, 0, true, bump), nil},
		},
		"KIP-890: a late version 2 marker does not end the next transaction": {
			{data(0, 0, true, bump), nil}, {marker(EndTxn{ProducerEpoch: 1, Version: 2}), nil},
			{data(1, 0, true, bump), nil},
			{marker(EndTxn{ProducerEpoch: 1, Version: 2}), ErrInvalidProducerEpoch},
			{data(1, 1, true, none), nil},
		},
		"KAFKA-19999: an older coordinator does not repeat a version 2 marker": {
			{marker(EndTxn{ProducerEpoch: 1, Version: 2, CoordinatorEpoch: 5}), nil},
			{marker(EndTxn{ProducerEpoch: 1, Version: 2, CoordinatorEpoch: 4}),
				ErrCoordinatorFenced},
		},
		"KAFKA-19690: the epoch is checked before the verification": {
			{data(0, 0, true, verified), nil}, {marker(EndTxn{ProducerEpoch: 1}), nil},
			{data(0, 1, true, none), ErrInvalidProducerEpoch},
		},
		"an open transaction does not adopt records of a later epoch": {
			{data(0, 0, true, verified), nil}, {data(1, 0, true, bump), ErrInvalidTxnState},
			{marker(EndTxn{ProducerEpoch: 1, Version: 2}), nil},
			{data(1, 0, true, bump), nil},
		},
		"KIP-890: with version 2 a producer begins at sequence 0": {{data(0, 3, true, bump),
			ErrOutOfOrderSequence}, {data(0, 3, true, verified), nil}},
		"a producer known by a marker alone begins at sequence 0": {
			{marker(EndTxn{}), nil}, {data(0, 3, true, verified), ErrOutOfOrderSequence},
			{data(1, 0, true, verified), nil},
		},
		"a marker without a producer is rejected": {{func(log *Log) error {
			_,
				err := log.AppendControl(EndTxn{ProducerID: -1}, epoch0)
			return err
		}, record.ErrInvalidRecord}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, log := newLogForTest(t)
			for i, act := range acts {
				end := log.LogEnd()
				err := act.do(log)
				if !errors.Is(err, act.want) || act.want == nil && err != nil {
					t.Fatalf("step %d: %v, want %v", i, err, act.want)
				}
				if err != nil && log.LogEnd() != end {
					t.Fatalf("step %d: the rejected batch is in the log", i)
				}
			}
		})
	}
}

// TestProducerWithOpenTransactionDoesNotExpire checks that a producer with an open transaction does
// not expire, because otherwise its transaction would never end.
func TestProducerWithOpenTransactionDoesNotExpire(t *testing.T) {
	_, _, log := newLogForTest(t)
	inTxn(t, log, 7, 0, "a")
	log.Producers().expire(epoch0.Add(100 * producer.Expiry))
	if !log.Producers().HasOpenTransaction(7, 0) || log.LastStable() != 0 {
		t.Fatal("the transaction is lost")
	}
	endTxn(t, log, 7, true)
	log.Producers().expire(epoch0.Add(100 * producer.Expiry))
	if log.mu.producers.Len() != 0 {
		t.Error("the producer did not expire")
	}
}

// txnLog returns a log of six segments with transactions that span segments: the transactions of
// producer 7 are aborted, the transactions of producer 8 are committed, and the transaction of
// producer 9 stays open. It also returns the committed records.
func txnLog(t testing.TB, fsys vfs.FS) (*Store, *Log, []string) {
	t.Helper()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	for i := range int32(4) {
		fill(t, log, 5)
		inTxn(t, log, 7, 2*i, "aborted")
		inTxn(t, log, 8, 2*i, "committed")
		fill(t, log, 5)
		inTxn(t, log, 7, 2*i+1, "aborted")
		inTxn(t, log, 8, 2*i+1, "committed")
		fill(t, log, 3)
		endTxn(t, log, 7, false)
		endTxn(t, log, 8, true)
	}
	fill(t, log, 2)
	want := committedKeys(t, log, 0)
	inTxn(t, log, 9, 0, "open")
	fill(t, log, 3)
	return store, log, want
}

func expectCommitted(t *testing.T, stage string, log *Log, want []string) {
	t.Helper()
	for offset := range log.LastStable() {
		var expected []string
		for _, key := range want {
			var position int64
			if _, err := fmt.Sscanf(key, "%d=", &position); err != nil {
				t.Fatal(err)
			}
			if position >= offset {
				expected = append(expected, key)
			}
		}
		if got := committedKeys(t, log, offset); len(got)+len(expected) > 0 &&
			!slices.Equal(got, expected) {
			t.Fatalf("%s: from %d read\n%v, want\n%v", stage, offset, got, expected)
		}
	}
}

func TestTransactionsSurviveRestart(t *testing.T) {
	for name, damageIt := range map[string]func(t *testing.T, mem *vfs.Mem){
		"no damage": func(*testing.T, *vfs.Mem) {},
		"damaged transaction indexes": func(t *testing.T, mem *vfs.Mem) {
			damageAll(t, mem, ".txnindex", flip(1)) // changes the version field; entries have no checksum
		},
		"no snapshots": func(t *testing.T,
			mem *vfs.Mem) {
			damageAll(t, mem, swap.SnapshotSuffix, gone)
		},
		"damaged snapshots and transaction indexes": func(t *testing.T, mem *vfs.Mem) {
			damageAll(t, mem, swap.SnapshotSuffix, flip(12))
			damageAll(t, mem, ".txnindex", flip(-1))
		},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, clean %t", name, clean), func(t *testing.T) {
				mem := vfs.NewMem()
				store, log, want := txnLog(t, mem)
				stable, end := log.LastStable(), log.LogEnd()
				store.tick(epoch0, false)
				if clean {
					if err := store.Close(); err != nil {
						t.Fatal(err)
					}
				}
				mem = mem.CrashClone()
				damageIt(t, mem)
				log = createLog(t, openStore(t, mem), settings(nil))
				log.AdvanceHighWatermark(end)
				if log.LastStable() != stable || log.LogEnd() != end ||
					!log.Producers().HasOpenTransaction(9, 0) {
					t.Fatalf("last stable offset %d of %d, want %d of %d", log.LastStable(),
						log.LogEnd(), stable, end)
				}
				expectCommitted(t, "restarted", log, want)
				endTxn(t, log, 9, false)
				if log.LastStable() != log.LogEnd() {
					t.Errorf("last stable offset %d of %d", log.LastStable(), log.LogEnd())
				}
				expectCommitted(t, "ended", log,
					append(slices.Clone(want), expectKeys(stable+1, stable+4)...))
			})
		}
	}
}

// damageAll changes all files with a suffix in the partition's directory.
func damageAll(t *testing.T, mem *vfs.Mem, suffix string, change func([]byte) []byte) {
	t.Helper()
	names, err := mem.ReadDir(filepath.Join(dataDir, partition.String()))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, entry := range names {
		if filepath.Ext(entry.Name()) == suffix {
			damage(t, mem, entry.Name(), change)
			changed++
		}
	}
	if changed == 0 {
		t.Fatalf("no file ends with %s", suffix)
	}
}

// TestCommittedReadsFollowTheModel writes random transactions of several producers. The committed
// records must match a model, which is a list of all records.
func TestCommittedReadsFollowTheModel(t *testing.T) {
	for seed := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(seed, 0))
		_, _, log := newLogForTest(t)
		type written struct {
			producer int64
			key      string
		}
		// open contains the offsets of each producer's open transaction.
		open, sequences := map[int64][]int{}, map[int64]int32{}
		var all []written
		dead := map[int]bool{}
		for range 150 {
			producer := 1 + random.Int64N(4)
			switch {
			case random.IntN(3) == 0:
				commit := random.IntN(2) == 0
				endTxn(t, log, producer, commit)
				for _, index := range open[producer] {
					dead[index] = !commit
				}
				delete(open, producer)
				all = append(all, written{})
			case random.IntN(4) == 0:
				key := fmt.Sprintf("k%d", log.LogEnd())
				fill(t, log, 1)
				all = append(all, written{0, key})
			default:
				inTxn(t, log, producer, sequences[producer], "t")
				sequences[producer]++
				open[producer] = append(open[producer], len(all))
				all = append(all, written{producer, "t"})
			}
		}
		stable := len(all)
		for _, indexes := range open {
			stable = min(stable, indexes[0])
		}
		var want []string
		for index, w := range all[:stable] {
			if w.key != "" && !dead[index] {
				want = append(want, fmt.Sprintf("%d=%s", index, w.key))
			}
		}
		if log.LastStable() != int64(stable) {
			t.Fatalf("seed %d: last stable offset %d, want %d", seed, log.LastStable(), stable)
		}
		expectCommitted(t, fmt.Sprintf("seed %d", seed), log, want)
	}
}
