package logstore

import (
	"fmt"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// DeleteBefore deletes all records below an offset (DeleteRecords, KIP-107). A follower calls it
// after its leader has deleted records. It moves the log start to the offset and deletes the
// segments that end at or below the offset, whatever the topic's cleanup policy (KAFKA-7400). When
// it returns nil, a log start at or above the offset is on disk. An offset at or below the log
// start removes no record.
//
// It fails with ErrOffsetOutOfRange if the offset is above the high watermark, because records that
// are not replicated must not be deleted. It fails with ErrClosed if the log is closed. It fails
// with ErrStorage if the disk fails. After ErrStorage the log start may have moved in memory; a
// repeated call, or the next checkpoints, then store it.
//
// The steps run in this order:
//
//  1. A flush writes a producer snapshot at the end of each segment that will be deleted. It also
//     ensures that the log does not end below its start after a crash.
//  2. The log start moves in memory, so that readers do not read deleted records.
//  3. The segments are deleted. In a compacted log a pass is planned that removes the deleted
//     records of the first remaining segment.
//  4. The checkpoints are written.
//  5. The leader epochs that end below the log start are removed.
//
// After a crash between two steps, the log begins at the old log start or at the first remaining
// segment, whichever offset is higher. Recovery restores the leader epochs from that offset on.
func (l *Log) DeleteBefore(offset int64) error {
	moved, err := l.deleteBefore(offset)
	if err != nil {
		return err
	}
	if !moved && offset <= l.savedStart.Load() {
		return nil
	}
	// If the log start has not moved now, an earlier call moved it and failed to write it.
	// No lock is held here, because writing the checkpoints reads the offsets of every log. The
	// checkpoints also contain the first dirty offset, which the log start may have passed.
	l.compaction.LogStartRaised()
	if err := l.env.saveCheckpoints(); err != nil {
		return fmt.Errorf("%w: save the log start: %w", ErrStorage, err)
	}
	return l.truncateEpochsFront(l.offsets.LogStart())
}

// deleteBefore executes the steps 1 to 3 of DeleteBefore, and reports whether the log start has
// moved. It holds Log.maintain, which serializes the deletion of segments.
func (l *Log) deleteBefore(offset int64) (moved bool, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	handles, stopped := l.list.Handles(), l.mu.stopped
	l.mu.Unlock()
	switch {
	case stopped != nil:
		return false, stopped
	case offset > l.offsets.HighWatermark():
		return false, fmt.Errorf("%w: delete before %d, the high watermark is %d",
			ErrOffsetOutOfRange, offset, l.offsets.HighWatermark())
	case offset <= l.offsets.LogStart():
		return false, nil
	}
	// If the disk is full, the deletion continues without the flush, because deleting segments
	// makes room.
	if err := l.flushMaintained(); err != nil && !segmentlist.IsTemporary(err) {
		return false, err
	}
	if err := l.saveEpochsBelow(offset); err != nil {
		return false, err
	}
	l.mu.Lock()
	l.raiseLogStartLocked(offset)
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

// raiseLogStartLocked stores a new log start. It also raises the last stable offset if a
// transaction has no record left above the log start. The caller holds Log.mu.
func (l *Log) raiseLogStartLocked(offset int64) {
	l.offsets.SetLogStart(offset)
	l.mu.producers.SetLogStart(offset)
	l.offsets.Settle(&l.mu.producers, nil)
}
