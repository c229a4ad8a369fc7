package logstore

import (
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// tooFar reports whether a batch is so far behind the log end that no segment that begins there can
// hold it: its offset in the segment has 31 bits. A leader's log has such a gap where cleaning has
// removed more than 2^31 records.
func tooFar(b record.Batch, logEnd int64) bool { return b.LastOffset()-logEnd > math.MaxInt32 }

// skipTo raises the log end to an offset and begins a segment there. The caller knows that no
// record below the offset will be appended any more.
//
// Above the recovery point segments join, and recovery treats a gap as lost data (ADR 0015). So the
// recovery point on disk moves beyond the gap before anything is appended behind it. The steps run
// in this order: sync the existing records; create the new segment; sync it and the sealed segment
// before it, and move the recovery point to offset; write the checkpoints. After a crash before the
// last step the log has its old end, without the empty segment; after the last step it ends at
// offset.
func (l *Log) skipTo(offset int64) error {
	if err := l.rollAt(offset); err != nil {
		return err
	}
	// saveCheckpoints writes the checkpoints of all logs, and acquires locks of the store.
	if err := l.env.saveCheckpoints(); err != nil {
		return fmt.Errorf("%w: save the recovery point behind a gap: %w", ErrStorage, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped == nil && l.disk.checkpointed < offset {
		return fmt.Errorf("%w: the recovery point is not behind the gap", ErrStorage)
	}
	return l.mu.stopped
}

// rollAt begins a segment at an offset above the log end, and moves the recovery point there.
func (l *Log) rollAt(offset int64) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := l.flushMaintained(); err != nil {
		return err
	}
	l.mu.Lock()
	err := l.mu.stopped
	if err == nil && l.mu.truncation.isRunning() {
		err = fmt.Errorf("%w: %w", ErrStorage, errTruncating)
	}
	if err == nil {
		end := l.logEnd.Load()
		l.logEnd.Store(offset)
		if err = l.rollLocked(); err != nil {
			l.logEnd.Store(end)
		}
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.flushMaintained()
}
