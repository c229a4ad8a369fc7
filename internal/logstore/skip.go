package logstore

import (
	"errors"
	"fmt"
	"math"

	"heartwood.dev/heartwood/internal/record"
)

// tooFar reports whether a batch is so far behind the log end that a segment which begins at the
// log end cannot contain it: the batch's offset relative to the segment has 31 bits. The log of a
// leader contains such a gap if cleaning has removed more than 2^31 records.
func tooFar(b record.Batch, logEnd int64) bool { return b.LastOffset()-logEnd > math.MaxInt32 }

// skipTo raises the log end to an offset and begins a segment there. The caller ensures that no
// record below the offset will be appended later.
//
// Above the recovery point segments must follow each other without gaps, because recovery treats a
// gap as lost data (ADR 0015). So the recovery point on disk must be above the gap before a record
// is appended above the gap. The steps run in this order:
//
//  1. Sync the existing records.
//  2. Create the new segment.
//  3. Sync the new segment and the sealed segment before it, and move the recovery point to offset.
//  4. Write the checkpoints.
//
// After a crash before step 4 is complete, the log has its old end and no empty segment. After step
// 4 the log ends at offset.
func (l *Log) skipTo(offset int64) error {
	if err := l.rollAt(offset); err != nil {
		return err
	}
	// No lock of the log is held here, because saveCheckpoints writes the checkpoints of all logs
	// and acquires locks of the store.
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

// rollAt begins a segment at an offset above the log end, and moves the recovery point to this
// offset.
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
		end := l.offsets.LogEnd()
		l.offsets.SetLogEnd(offset)
		if err = l.rollLocked(); err != nil {
			l.offsets.SetLogEnd(end)
		}
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	// an unsaved leader epoch would hold back the recovery point on disk
	return errors.Join(l.flushMaintained(), l.saveEpochs())
}
