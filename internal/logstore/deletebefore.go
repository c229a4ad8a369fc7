package logstore

import (
	"fmt"
)

// DeleteBefore gives up all records below an offset (DeleteRecords, KIP-107; a follower whose
// leader did): the log start moves there, for good, and segments that lie wholly below are deleted
// whatever the topic's policy (KAFKA-7400). The log start is on disk when it returns. An offset at
// or below the log start changes nothing.
//
// It fails with ErrOffsetOutOfRange above the high watermark, for what is not replicated must not
// be given up; with ErrStorage when the disk fails, and then the log start has moved in memory and
// is written with the next checkpoints; with ErrClosed.
//
// The order: a flush, which leaves a producer snapshot behind each segment that is to go, and a log
// that does not end below its start after a crash; the log start in memory, so that nobody reads
// what goes; the segments; the checkpoints; the epochs that ended below. After a crash in between
// the log begins at the older log start or at the first segment that is left, the later of the two,
// and knows the epochs from there on.
func (l *Log) DeleteBefore(offset int64) error {
	moved, err := l.deleteBefore(offset)
	if err != nil || !moved {
		return err
	}
	// No lock is held: it asks every log for its offsets. It also writes the first dirty offset,
	// which the log start may have passed.
	if within := firstDirtyWithin(l.compaction.firstDirty.Load(), l.LogStart(),
		l.LogEnd()); within != l.compaction.firstDirty.Load() {
		l.compaction.firstDirty.Store(within) // reference I3
	}
	if err := l.env.saveFirstDirty(); err != nil {
		return fmt.Errorf("%w: save the log start: %w", ErrStorage, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		// the directory of a closed log may belong to another log; the next start removes them
		return nil
	}
	return l.epochs.truncateFront(l.logStart.Load())
}

// deleteBefore is DeleteBefore without the checkpoints. It holds Log.maintain, so that segments go
// one after the other.
func (l *Log) deleteBefore(offset int64) (moved bool, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	handles, stopped := l.currentLocked(), l.mu.stopped
	l.mu.Unlock()
	switch {
	case stopped != nil:
		return false, stopped
	case offset > l.highWatermark.Load():
		return false, fmt.Errorf("%w: delete before %d, the high watermark is %d",
			ErrOffsetOutOfRange, offset, l.highWatermark.Load())
	case offset <= l.logStart.Load():
		return false, nil
	}
	// On a full disk it goes on without: what is deleted makes room.
	if err := l.flushMaintained(); err != nil && !passes(err) {
		return false, err
	}
	l.mu.Lock()
	l.logStart.Store(offset)
	l.mu.Unlock()
	count := 0
	for count+1 < len(handles) && handles[count+1].Base() <= offset {
		count++
	}
	if count == 0 {
		return true, nil
	}
	return true, l.deleteFront(handles, count)
}
