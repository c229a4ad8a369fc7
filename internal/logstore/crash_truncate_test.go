package logstore

import (
	"slices"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/record"
)

// truncate truncates the log to a random offset: within a batch, in a gap, above the end, and
// sometimes below the log start. It does not truncate below an offset that a pass or a deletion of
// records treated as replicated. No follower truncates below such an offset, and the removed
// records could not be restored.
func (w *workload) truncate(p *partitionModel, log *Log) {
	start := log.LogStart()
	from := max(start-2, 0)
	if w.random.IntN(4) > 0 { // usually truncate only a few records
		from = max(from, p.end()-25)
	}
	from = min(max(from, p.cleanable, p.replicatedTo), p.end())
	offset := from + w.random.Int64N(p.end()+3-from)
	if offset >= p.end() {
		p.epochsChanging = true
		if w.done(log.TruncateTo(offset), "truncate nothing") {
			w.forgetEpochs(p, offset)
		}
		p.epochsChanging = false
		if log.LogEnd() != p.end() {
			w.failf("%s ends at %d after truncating to %d, was %d", p.id, log.LogEnd(), offset,
				p.end())
		}
		return
	}
	end, low := offset, p.first
	for _, b := range p.batches {
		switch {
		case b.last() < offset:
			low = b.last() + 1 // a gap after this batch may be lost
		case b.base < offset:
			end = b.base
		}
	}
	for _, f := range p.filled {
		if f.from < offset && offset < f.to {
			end = min(end, f.from)
		}
	}
	if low <= start || offset <= start { // no record is left
		if offset <= start {
			end = offset
		}
		w.restartAt(p, log, end, func() error { return log.TruncateTo(offset) })
		return
	}
	p.synced, p.highWatermark = min(p.synced, low), min(p.highWatermark, low)
	p.epochsChanging = true
	done := w.done(log.TruncateTo(offset), "truncate")
	got := log.LogEnd()
	if !done && got == p.end() {
		p.epochsChanging = false
		return
	}
	// The truncation failed after it had removed the records: it could not write the epoch file.
	// The log writes the file before the next append.
	if !done {
		w.freeSpace()
		w.must(log.TruncateTo(got), "truncate again")
	}
	if got < low || got > end {
		w.failf("%s ends at %d after truncating to %d, want [%d, %d]", p.id, got, offset, low, end)
	}
	*p = *p.upTo(got)
	p.truncatedTo, p.cleanable, p.filled = got, min(p.cleanable, got), p.filledTo(got)
	if got > p.dataEnd() {
		p.filled = append(p.filled, filledGap{p.dataEnd(), got})
	}
	p.highWatermarkMax = min(p.highWatermarkMax, got)
	w.forgetEpochs(p, got)
	p.epochsChanging = false
	if dirty := log.compaction.Progress.FirstDirty(); dirty > bases(log)[len(bases(log))-1] {
		w.failf("%s is clean up to %d, above the truncation to %d", p.id, dirty, got)
	}
	w.checkLog(p, log)
}

// forgetEpochs removes the leader epochs that start at or above an offset from the model, and
// checks that the log has removed these epochs too.
func (w *workload) forgetEpochs(p *partitionModel, offset int64) {
	for len(p.epochs) > 0 && p.epochs[len(p.epochs)-1].Start >= offset {
		p.epochs = slices.Clip(p.epochs[:len(p.epochs)-1])
	}
	log := w.store.Log(p.id)
	if log.LogStart() == log.LogEnd() && log.LeaderEpoch() == (leaderepoch.Cache{}).Latest() {
		// In a log without records every epoch starts at the log start, which equals the log end.
		p.epochs = nil
	}
	// A follower's new epochs may be lower than an epoch that was in the file.
	p.epochsSaved = min(p.epochsSaved, p.leaderEpoch(p.end()))
	if got, want := log.LeaderEpoch(), p.leaderEpoch(p.end()); got != want {
		w.failf("%s: leader epoch is %d after truncating to %d, want %d", p.id, got, offset, want)
	}
}

// startAt empties the log with Log.StartAt, at a random new start offset.
func (w *workload) startAt(p *partitionModel, log *Log) {
	offset := w.random.Int64N(p.end() + 30)
	w.restartAt(p, log, offset, func() error { return log.StartAt(offset) })
}

// restartAt calls truncate, which must empty the log, and checks that the log is empty and begins
// at offset.
func (w *workload) restartAt(p *partitionModel, log *Log, offset int64, truncate func() error) {
	p.restart = offset
	if !w.done(truncate(), "start again") {
		w.freeSpace() // the log has not stopped, so the follower repeats the call
		w.must(truncate(), "start again, with room")
	}
	p.restart = none
	p.reset(offset)
	w.checkLog(p, log)
}

// checkRestart checks a log after a crash that interrupted StartAt: the log is empty, or contains
// only records that were appended. It then calls StartAt again, as the follower does.
func (w *workload) checkRestart(p *partitionModel, log *Log) {
	start, end := log.LogStart(), log.LogEnd()
	if start != end {
		if start < p.start || end > p.end() || !p.boundary(end) {
			w.failf("%s is [%d, %d), was [%d, %d), and was to start again at %d", p.id, start, end,
				p.start, p.end(), p.restart)
		}
		known := map[int64]modelRecord{}
		for _, r := range p.records(start, end, false) {
			known[r.offset] = r
		}
		for _, r := range w.readAll(log) {
			if known[r.offset] != r {
				w.failf("%s: read %+v, appended was %+v", p.id, r, known[r.offset])
			}
		}
	}
	if stable := log.LastStable(); start == end && stable != end {
		w.failf("%s is [%d, %d) and stable up to %d", p.id, start, end, stable)
	}
	w.restartAt(p, log, p.restart, func() error { return log.StartAt(p.restart) })
}

// deleteBefore deletes the records below a random offset, which is at most the high watermark.
func (w *workload) deleteBefore(p *partitionModel, log *Log) {
	start := log.LogStart()
	offset := start + w.random.Int64N(log.HighWatermark()-start+1)
	p.startMax, p.replicatedTo = max(p.startMax, offset), max(p.replicatedTo, offset)
	if w.fullFor > 0 {
		p.forgotten = max(p.forgotten, offset)
	}
	if !w.done(log.DeleteBefore(offset), "delete records") {
		return
	}
	p.start = max(p.start, offset)
	if log.LogStart() != max(start, offset) {
		w.failf("%s begins at %d, deleted below %d", p.id, log.LogStart(), offset)
	}
	p.startMax = max(log.LogStart(), p.start)
	w.checkLog(p, log)
}

// replicate appends batches as if they were fetched from a leader: with given offsets, with new
// leader epochs, and with gaps where the leader's log was cleaned.
func (w *workload) replicate(p *partitionModel, log *Log) {
	var batches []byte
	for range 1 + w.random.IntN(5) {
		a := w.data(p)
		from := a.base // a new epoch starts at the log end, even if a gap follows
		if w.random.IntN(4) == 0 {
			a.base += int64(w.random.IntN(20))
		}
		if w.random.IntN(6) == 0 || a.epoch < 0 {
			a.epoch += 1 + int32(w.random.IntN(2))
			p.epochs = append(p.epochs, leaderepoch.Entry{Epoch: a.epoch, Start: from})
		}
		b := record.Batch(append([]byte{}, a.wire...))
		b.SetBaseOffset(a.base)
		b.SetLeaderEpoch(a.epoch)
		p.batches = append(p.batches, a)
		batches = append(batches, b...)
	}
	p.epochsChanging = true
	if !w.done(log.AppendReplicated(batches, time.Now()), "append as a follower") {
		w.freeSpace() // then append the batches that the log lacks once more
		for len(batches) > 0 && record.Batch(batches).BaseOffset() < log.LogEnd() {
			_, batches, _ = record.Next(batches)
		}
		w.must(log.AppendReplicated(batches, time.Now()), "append the rest as a follower")
	}
	synctest.Wait() // wait for a concurrent sync, at which a crash may clone the model
	p.epochsChanging = false
	w.acknowledge(p, log)
}
