package offsets

import (
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore/producer"
)

// Offsets are the offsets of one log. The zero value represents an empty log that begins at offset
// 0.
type Offsets struct {
	// start is the log start. Only a truncation lowers it. When segments are deleted at the front,
	// start rises before the list without these segments is published.
	start atomic.Int64
	// highWatermark is always at least start and at most end. It is stored under the lock of
	// stable, and only a truncation lowers it.
	highWatermark atomic.Int64
	stable        stability
	// end is the log end. It is stored after the batch is in the segment, so a reader finds the
	// batch of every offset below it.
	end atomic.Int64
}

// Restore sets the offsets and the open transactions of a log that is being opened.
func (o *Offsets) Restore(start, highWatermark, end int64, producers *producer.State) {
	o.stable.Lock()
	defer o.stable.Unlock()
	o.start.Store(start)
	o.end.Store(end)
	o.highWatermark.Store(highWatermark)
	o.stable.setOpen(producers)
}

// RestoreEnded adds the transactions that ended at or above the high watermark before the log was
// opened.
func (o *Offsets) RestoreEnded(ended []producer.EndedTxn) {
	o.stable.Lock()
	defer o.stable.Unlock()
	for _, e := range ended {
		o.stable.end(e.FirstOffset, e.LastOffset, o.highWatermark.Load())
	}
}

// LogStart returns the first offset that may be read.
func (o *Offsets) LogStart() int64 { return o.start.Load() }

// HighWatermark returns the offset below which consumers may read.
func (o *Offsets) HighWatermark() int64 { return o.highWatermark.Load() }

// LogEnd returns the offset of the next record.
func (o *Offsets) LogEnd() int64 { return o.end.Load() }

// LastStable returns the last stable offset; see Log.LastStable.
func (o *Offsets) LastStable() int64 {
	// The log start is loaded first, so it is at most the high watermark, which is loaded
	// afterwards.
	start := o.start.Load()
	o.stable.Lock()
	defer o.stable.Unlock()
	return max(start, o.stable.below(o.highWatermark.Load()))
}

// Open returns the number of open transactions, and the open transaction with the lowest first
// offset.
func (o *Offsets) Open() (count int, oldest producer.Transaction) {
	o.stable.Lock()
	defer o.stable.Unlock()
	return o.stable.open, o.stable.oldest
}

// AdvanceHighWatermark raises the high watermark to an offset, at most the log end, and reports
// whether the high watermark has changed.
func (o *Offsets) AdvanceHighWatermark(offset int64) bool {
	// The lock excludes a truncation, so the log end cannot fall before the offset is stored.
	o.stable.Lock()
	defer o.stable.Unlock()
	offset = min(offset, o.end.Load())
	if offset <= o.highWatermark.Load() {
		return false
	}
	o.highWatermark.Store(offset)
	o.stable.forget(offset)
	return true
}

// Settle updates the last stable offset after a change of the producer state. ended is the
// transaction that the change has ended, or nil if the change has ended no transaction. The caller
// holds the lock of the log, and stores the log end after Settle. So the high watermark cannot pass
// the first batch of a transaction before the transaction's first offset is known.
func (o *Offsets) Settle(producers *producer.State, ended *producer.EndedTxn) {
	o.stable.Lock()
	defer o.stable.Unlock()
	o.stable.setOpen(producers)
	if ended != nil {
		o.stable.end(ended.FirstOffset, ended.LastOffset, o.highWatermark.Load())
	}
}

// SetLogEnd stores the log end. The caller holds the lock of the log.
func (o *Offsets) SetLogEnd(offset int64) { o.end.Store(offset) }

// RaiseLogStart stores a higher log start, also in the producer state. It also raises the last
// stable offset if a transaction no longer has a record above the log start. The caller holds the
// lock of the log.
func (o *Offsets) RaiseLogStart(offset int64, producers *producer.State) {
	o.start.Store(offset)
	producers.SetLogStart(offset)
	o.Settle(producers, nil)
}

// Lower sets the offsets of a truncated log that now covers [start, end). The offsets change in
// such an order that LogStart <= HighWatermark <= LogEnd at every moment. producers is the producer
// state as of end. The caller holds the lock of the log.
func (o *Offsets) Lower(start, end int64, producers *producer.State) {
	o.stable.Lock()
	defer o.stable.Unlock()
	if start < o.start.Load() {
		o.start.Store(start)
	}
	if end > o.end.Load() { // possible only if the log restarts empty
		o.end.Store(end)
	}
	o.highWatermark.Store(max(start, min(o.highWatermark.Load(), end)))
	o.end.Store(end)
	o.start.Store(start)
	o.stable.truncate(producers, end)
}
