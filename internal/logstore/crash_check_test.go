package logstore

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
)

// failTB is the testing.TB that the crash test passes to helpers. It reports a failure by a panic,
// which run recovers.
type failTB struct{ testing.TB }

func (failTB) Helper()           {}
func (failTB) Fatal(args ...any) { panic(crashFailure{sprint("%v", args)}) }
func (failTB) Fatalf(format string, args ...any) {
	panic(crashFailure{sprint(format, args...)})
}

// checkAll compares the opened store with the models, after a crash or after Close. It then updates
// the models to the state that it has found.
func (w *workload) checkAll() {
	for id, err := range w.store.Offline() {
		w.failf("%s is offline: %v", id, err)
	}
	names, err := leftovers(w.disk.mem)
	w.must(err, "list the partitions")
	if len(names) > 0 {
		w.failf("leftovers after the start: %v", names)
	}
	for _, p := range w.models {
		w.checkPresence(p)
		if p.where != present {
			continue
		}
		log := w.store.Log(p.id)
		if loss := log.Notes().Loss(); loss != "" {
			w.failf("%s has lost records: %s", p.id, loss)
		}
		if p.restart != none {
			w.checkRestart(p, log)
		}
		w.checkLog(p, log)
		if topic := log.TopicID(); topic != p.topic && topic != (TopicID{}) && p.next == p.where {
			w.failf("%s is of topic %v, was %v", p.id, topic, p.topic)
		}
		w.adopt(p, log)
		// Create the log again, as the broker does at its start.
		topic := p.topic
		if known := log.TopicID(); known != (TopicID{}) {
			topic = known
		}
		again, err := w.store.Create(p.id, topic, p.settings, p.retain)
		if err != nil || again != log {
			w.failf("create %s again: %v", p.id, err)
		}
		w.checkKeys(log)
	}
}

// checkPresence checks whether the log of the partition exists, and updates p.where. If an
// operation was interrupted, p.next is accepted as well.
func (w *workload) checkPresence(p *partitionModel) {
	found := w.store.Log(p.id) != nil
	switch {
	case found && (p.where == present || p.next == present):
		p.where = present
	case !found && (p.where != present || p.next != present):
		if p.where == present {
			p.where = p.next
		}
	case found:
		w.failf("%s exists, though it was released", p.id)
	default:
		w.failf("%s is missing", p.id)
	}
	p.next = p.where
}

// checkLog compares a log with the records that it must contain and the records that it may
// contain.
func (w *workload) checkLog(p *partitionModel, log *Log) {
	start, end := log.LogStart(), log.LogEnd()
	switch {
	case end < p.synced:
		w.failf("%s ends at %d, and %d was synced", p.id, end, p.synced)
	case end > p.end() || !p.boundary(end) && !p.emptied(start, end):
		w.failf("%s ends at %d, which is not the end of a batch up to %d", p.id, end, p.end())
	case start < p.start || start > max(p.startMax, p.start):
		w.failf("log start of %s is %d, not in [%d, %d]", p.id, start, p.start, p.startMax)
	}
	if hw := log.HighWatermark(); hw < min(p.highWatermark, end) ||
		hw > max(p.highWatermarkMax, start) || hw > end || hw < start {
		w.failf("high watermark of %s is %d, not in [%d, %d], log [%d, %d)", p.id, hw,
			p.highWatermark, p.highWatermarkMax, start, end)
	}
	if dirty := log.compaction.Progress.FirstDirty(); dirty > max(min(p.cleanable, end), start) {
		w.failf("%s is clean up to %d: no pass went above %d", p.id, dirty, p.cleanable)
	}
	p = p.upTo(end)
	read := w.readAll(log)
	if why := p.missing(read, start, end, false); why != "" {
		w.failf("%s, log [%d, %d): %s", p.id, start, end, why)
	}
	w.checkEpochs(p, log, read)
	w.wantDuplicates(p, log)
	w.checkTransactions(p, log)
	if log.LogEnd() != end {
		w.failf("%s accepted a batch again", p.id)
	}
}

func (w *workload) checkEpochs(p *partitionModel, log *Log, read []modelRecord) {
	for _, r := range read {
		if epoch := log.EpochAt(r.offset); epoch != r.epoch {
			w.failf("%s: the epoch at %d is %d, the batch has %d", p.id, r.offset, epoch, r.epoch)
		}
	}
	got, want := log.LeaderEpoch(), p.leaderEpoch(log.LogEnd())
	known := p.clone()
	for (p.epochsChanging || want > p.certainEpoch(log)) && got != want &&
		len(known.epochs) > 0 {
		known.epochs = known.epochs[:len(known.epochs)-1]
		want = known.leaderEpoch(log.LogEnd())
	}
	if got != want {
		w.failf("%s: leader epoch is %d, want %d; %d is certain", p.id, got, want,
			p.certainEpoch(log))
	}
}

// certainEpoch returns the latest leader epoch that a log must know after a crash. This is the
// epoch of the log's last batch, even if cleaning or retention has removed the batch, or an epoch
// that is in the epoch file. While the disk is full, retention may remove batches although their
// epoch cannot be saved.
func (p *partitionModel) certainEpoch(log *Log) int32 {
	start, end, certain := log.LogStart(), log.LogEnd(), int32(-1)
	for _, e := range p.epochs {
		if e.Start <= end && e.Epoch <= p.epochsSaved {
			certain = max(certain, e.Epoch)
		}
	}
	for _, b := range p.batches {
		if b.last() < end && (b.last() >= start || !p.wasFull) {
			certain = max(certain, b.epoch)
		}
	}
	return certain
}

// adopt updates the model to the log's state, one of the states that the model permits after a
// crash.
func (w *workload) adopt(p *partitionModel, log *Log) {
	end := log.LogEnd()
	if p.emptied(log.LogStart(), end) && !p.boundary(end) {
		p.outdated = end
	}
	p.batches = p.upTo(end).batches
	if len(p.batches) == 0 {
		p.first = end
	}
	p.truncatedTo, p.cleanable, p.filled = end, min(p.cleanable, end), p.filledTo(end)
	p.epochs = p.knownEpochs(end, log.LeaderEpoch())
	p.epochsSaved = min(p.epochsSaved, log.LeaderEpoch())
	p.epochsChanging, p.synced = false, min(end, p.dataEnd())
	p.start, p.startMax = log.LogStart(), log.LogStart()
	p.highWatermark, p.highWatermarkMax = min(p.highWatermark, end), log.HighWatermark()
}

// knownEpochs returns the model's epochs that a log with the given end and latest epoch has in its
// cache.
func (p *partitionModel) knownEpochs(end int64, latest int32) []leaderepoch.Entry {
	return slices.DeleteFunc(slices.Clone(p.epochs),
		func(e leaderepoch.Entry) bool { return e.Start > end || e.Epoch > latest })
}

// readAll returns all records of a log, as a consumer reads them.
func (w *workload) readAll(log *Log) (records []modelRecord) {
	offset, end := log.LogStart(), log.LogEnd()
	for offset < end {
		slice, err := log.Read(offset, end, 3000, true)
		w.must(err, sprint("read %s at %d", log.ID(), offset))
		if slice.Length == 0 {
			slice.Release()
			return records // the cleaner has removed all later batches
		}
		for _, b := range batchesOf(failTB{}, slice) {
			if b.NextOffset() <= offset {
				w.failf("%s: a read at %d returned [%d, %d]", log.ID(), offset, b.BaseOffset(),
					b.LastOffset())
			}
			if !b.Control() {
				records = append(records, w.recordsOf(b, offset)...)
			}
			offset = b.NextOffset()
		}
		slice.Release()
	}
	return records
}

// verifyClosed closes the store, and checks that this succeeds.
func (w *workload) verifyClosed() {
	w.freeSpace()
	if err := w.store.Close(); err != nil && !errors.Is(err, ErrClosed) {
		w.failf("close: %v", err)
	}
}
