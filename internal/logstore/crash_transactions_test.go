package logstore

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// transactions is the state of all transactions of a partition, computed from the batches in its
// model.
type transactions struct {
	open    map[int64]int64 // first offset of the open transaction, by producer id
	epochs  map[int64]int16 // latest epoch of each producer with a marker or a transactional batch
	seen    map[int64]int64 // offset of the last marker or transactional batch, by producer id
	aborted map[int64]bool  // true if a data batch was aborted, by the batch's base offset
	decided []struct{ first, last int64 }
}

// transactions computes the state of all transactions from all batches.
func (p *partitionModel) transactions() transactions {
	t := transactions{open: map[int64]int64{}, epochs: map[int64]int16{}, seen: map[int64]int64{},
		aborted: map[int64]bool{}}
	within := map[int64][]int64{}
	for _, b := range p.batches {
		id := b.sent.Producer
		switch {
		case b.marker != nil:
			id = b.marker.ProducerID
			t.epochs[id], t.seen[id] = b.marker.ProducerEpoch, b.base
			first, open := t.open[id]
			if !open {
				continue
			}
			for _, base := range within[id] {
				t.aborted[base] = !b.marker.Commit
			}
			t.decided = append(t.decided, struct{ first, last int64 }{first, b.base})
			delete(t.open, id)
			delete(within, id)
		case b.sent.Transactional:
			t.epochs[id], t.seen[id] = b.sent.Epoch, b.base
			if _, open := t.open[id]; !open {
				t.open[id] = b.base
			}
			within[id] = append(within[id], b.base)
		}
	}
	return t
}

// abortedRecords returns the offsets of the records of aborted transactions.
func (p *partitionModel) abortedRecords() map[int64]bool {
	offsets := map[int64]bool{}
	aborted := p.transactions().aborted
	for _, b := range p.batches {
		for offset := b.base; aborted[b.base] && offset <= b.last(); offset++ {
			offsets[offset] = true
		}
	}
	return offsets
}

// lastStable returns the last stable offset of a log with the given start and high watermark. It
// ignores transactions that the log may not know, as reported by the function unknown. unknown's
// arguments are the first offset of a transaction and the offset of its marker, which is
// math.MaxInt64 for an open transaction.
func (t transactions) lastStable(start, highWatermark int64,
	unknown func(first, last int64) bool) int64 {
	stable := highWatermark
	for _, first := range t.open {
		if !unknown(first, math.MaxInt64) {
			stable = min(stable, first)
		}
	}
	for _, d := range t.decided {
		if d.last >= highWatermark && !unknown(d.first, d.last) {
			stable = min(stable, d.first)
		}
	}
	return max(start, stable)
}

// mayBeUnknown reports whether a log may have lost a transaction with the given first offset and
// marker offset. There are three cases:
//   - Its batches were deleted while the disk was full.
//   - A pass has removed its marker.
//   - A pass has removed its first batches, because its marker was below the high watermark at the
//     start of the pass. Then a crash lowered the high watermark and lost the producer snapshots,
//     so the log no longer knows where the transaction began.
func (p *partitionModel) mayBeUnknown(first, last int64) bool {
	return first < p.forgotten || last < p.cleanable || first < p.cleanable && last < p.replicatedTo
}

// transact appends a batch to a producer's transaction, and begins a transaction if none is open.
//
// A log may have lost a producer's state (partitionModel.forgotten) and then received a marker of
// this producer. Then the log knows only the marker. It rejects every sequence number except 0, as
// Kafka does, because it cannot distinguish the next transaction in an old epoch from a sequence
// gap in a new epoch. The workload then does what a client does (KIP-360): it increments the
// producer epoch and starts at sequence 0.
func (w *workload) transact(p *partitionModel, log *Log) {
	id := int64(11 + w.random.IntN(3))
	known := p.transactions()
	a := w.data(p)
	a.sent.Producer, a.sent.Transactional, a.sent.Sequence, a.nulls = id, true, 0, false
	a.sent.Epoch = known.epochs[id]
	before, ok := p.latest(p.end())[id]
	if ok {
		a.sent.Sequence = before.sent.Sequence + int32(len(before.sent.Keys))
	}
	a.wire = a.sent.Bytes(failTB{})
	err := w.tryPut(p, log, a)
	if errors.Is(err, ErrOutOfOrderSequence) && ok && (before.base < p.outdated ||
		before.base < p.forgotten && before.base < known.seen[id]) {
		err = w.tryPut(p, log, a.inNextEpoch())
	}
	w.done(err, "append to a transaction")
}

// endTransaction writes a marker. In one case of four it also does so for a producer without an
// open transaction, like a coordinator that repeats a marker.
func (w *workload) endTransaction(p *partitionModel, log *Log) {
	known := p.transactions()
	id := int64(11 + w.random.IntN(3))
	if _, open := known.open[id]; !open && w.random.IntN(4) > 0 {
		return
	}
	end := EndTxn{ProducerID: id, ProducerEpoch: known.epochs[id], Commit: w.random.IntN(2) == 0}
	if w.random.IntN(2) == 0 { // as in transaction version 2
		end.ProducerEpoch, end.Version = end.ProducerEpoch+1, producer.EpochBumpVersion
	}
	p.batches = append(p.batches,
		appended{base: p.end(), epoch: p.leaderEpoch(p.end()), marker: &end})
	_, err := log.AppendControl(end, time.Now())
	if !w.done(err, "end a transaction") {
		p.batches = slices.Clip(p.batches[:len(p.batches)-1])
		return
	}
	w.acknowledge(p, log)
}

// checkTransactions compares a log's transactions, and the records that a read_committed consumer
// reads, with the model.
func (w *workload) checkTransactions(p *partitionModel, log *Log) {
	start, stable := log.LogStart(), log.LastStable()
	known, left := p.transactions(), p.since(start).transactions()
	// A transaction without a record at or above the log start is not open.
	maps.DeleteFunc(known.open, func(id, _ int64) bool {
		_, open := left.open[id]
		return !open
	})
	for id, epoch := range known.epochs {
		if known.seen[id] < p.forgotten {
			continue
		}
		if _, open := known.open[id]; log.Producers().HasOpenTransaction(id, epoch) != open {
			w.failf("%s: open transaction of producer %d: %t, want %t", p.id, id, !open, open)
		}
		if epoch == 0 {
			continue
		}
		late := storetest.Batch{Producer: id, Epoch: epoch - 1, Keys: []string{"late"},
			Transactional: true, Timestamp: time.Now()}.Bytes(failTB{})
		if _, err := log.AppendVerified(late, verified, time.Now()); !errors.Is(err,
			ErrInvalidProducerEpoch) {
			w.failf("%s: a batch of epoch %d of producer %d, after epoch %d: %v", p.id, epoch-1,
				id, epoch, err)
		}
	}
	low := known.lastStable(start, log.HighWatermark(), func(int64, int64) bool { return false })
	high := known.lastStable(start, log.HighWatermark(), p.mayBeUnknown)
	// The batches of a transaction below the log start do not have to limit the last stable offset,
	// because no reader can read them.
	high = max(high, left.lastStable(start, log.HighWatermark(), p.mayBeUnknown))
	if stable < low || stable > high {
		w.failf("%s is stable up to %d, want [%d, %d]", p.id, stable, low, high)
	}
	if why := p.missing(w.readCommitted(log), start, stable, true); why != "" {
		w.failf("%s, committed [%d, %d): %s", p.id, start, stable, why)
	}
}

// readCommitted returns the records that a read_committed consumer reads.
func (w *workload) readCommitted(log *Log) (records []modelRecord) {
	for offset := log.LogStart(); offset < log.LastStable(); {
		slice, err := log.ReadCommitted(offset, log.LogEnd(), 700, true)
		w.must(err, fmt.Sprintf("read committed data of %s at %d", log.ID(), offset))
		if slice.Length == 0 {
			slice.Release()
			return records
		}
		pending := slices.Clone(slice.Aborted)
		slices.SortStableFunc(pending,
			func(a, b segment.AbortedTxn) int { return int(a.FirstOffset - b.FirstOffset) })
		aborted := map[int64]bool{}
		from := offset
		for _, b := range batchesOf(failTB{}, slice) {
			for len(pending) > 0 && pending[0].FirstOffset <= b.LastOffset() {
				aborted[pending[0].ProducerID] = true
				pending = pending[1:]
			}
			offset = b.NextOffset()
			if b.Control() {
				if m, ok, err := b.Marker(); err == nil && ok && m.Type == record.ControlAbort {
					delete(aborted, b.ProducerID())
				}
				continue
			}
			if !b.Transactional() || !aborted[b.ProducerID()] {
				records = append(records, w.recordsOf(b, from)...)
			}
		}
		slice.Release()
	}
	return records
}

// recordsOf returns the records of a batch at or above an offset.
func (w *workload) recordsOf(b record.Batch, from int64) (records []modelRecord) {
	err := b.Records(1<<20, func(r *record.Record) error {
		if r.Offset >= from {
			records = append(records,
				modelRecord{r.Offset, string(r.Key), string(r.Value), r.Timestamp, b.LeaderEpoch()})
		}
		return nil
	})
	w.must(err, "records")
	return records
}

// TestCrashMayLoseTheStartOfADecidedTransaction checks a pass that removes the first batch of a
// transaction whose marker is above the cleanable bound but replicated. The power fails before the
// pass has saved the high watermark, and the producer snapshots are lost. The reopened log does not
// know the transaction. The log's last stable offset is correct nevertheless, because all
// transactions below it have ended. TestCrashes once found this with seed 1795301618533486181, when
// its runs were not repeatable, and reported "tickets-0 is stable up to 15, want [0, 0]".
func TestCrashMayLoseTheStartOfADecidedTransaction(t *testing.T) {
	mem := vfs.NewMem()
	var crashedDisk *vfs.Mem
	disk := newCrashDisk(mem, func(what, name string) {
		if what == "rename" && strings.HasSuffix(name, ".index.swap") && crashedDisk == nil {
			crashedDisk = mem.CrashClone()
		}
	})
	store := openStore(t, disk)
	config := compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 0 })
	log := createLog(t, store, config)
	w := &workload{disk: disk, fault: vfs.NewFault(disk), store: store}
	p := &partitionModel{id: partition, restart: none, where: present, next: present,
		settings: config}
	put := func(s storetest.Batch) {
		s.Timestamp = epoch0
		w.put(p, log, appended{base: p.end(), epoch: -1, sent: s, wire: s.Bytes(t)})
	}
	put(storetest.Batch{Producer: 11, Keys: []string{"a"}, Transactional: true, Value: "first"})
	for range 14 {
		put(storetest.Batch{Keys: []string{"a"}, Value: strings.Repeat("v", 100)})
	}
	log.AdvanceHighWatermark(log.LogEnd())
	store.tick(epoch0, false)
	w.settle(p, log)
	p.highWatermark = log.HighWatermark()
	put(storetest.Batch{Producer: 11, Sequence: 1, Keys: []string{"b"}, Transactional: true,
		Value: "second"})
	end := EndTxn{ProducerID: 11, Commit: true}
	p.batches = append(p.batches, appended{base: p.end(), epoch: -1, marker: &end})
	endTxn(t, log, 11, true)
	log.AdvanceHighWatermark(log.LogEnd())
	w.clean(p, log)
	if crashedDisk == nil {
		t.Fatal("the pass replaced nothing")
	}
	names, err := crashedDisk.ReadDir(log.dir)
	for _, entry := range names {
		if strings.HasSuffix(entry.Name(), swap.SnapshotSuffix) {
			err = errors.Join(err, crashedDisk.Remove(log.dir+"/"+entry.Name()))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, crashedDisk), config)
	if again.HighWatermark() != 15 || again.LastStable() != 15 {
		t.Errorf("high watermark %d, stable up to %d", again.HighWatermark(), again.LastStable())
	}
	w.checkTransactions(p, again)
}
