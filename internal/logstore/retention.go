package logstore

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// segmentInfo holds the properties of a segment that retention uses.
type segmentInfo struct {
	end       int64 // end offset, which is the base offset of the next segment
	sizeBytes int64
	// newest is the largest timestamp in ms, or the modification time if no batch has a timestamp.
	newest int64
}

// logInfo holds the properties of a log that retention uses.
type logInfo struct {
	// logStart is the log start. Segments that end at or below it are deleted regardless of the
	// policy.
	logStart      int64
	highWatermark int64
	sizeBytes     int64 // size of all segments, including the active one
}

// countExpired returns how many segments at the front of the log are to be deleted. Segments wholly
// below the log start are deleted regardless of the policy. Other segments are deleted by retention
// by time or by size. Nothing above the high watermark is deleted. Counting ends at the first
// segment that is not deleted. segments are all segments except the active one, oldest first.
//
// Retention by size deletes a segment only if the remaining segments together still have at least
// RetentionBytes. As in Kafka, the limit is the minimum size that is kept.
func countExpired(segments []segmentInfo, log logInfo, s topicconfig.Settings,
	now time.Time) int {
	excess := int64(0)
	if s.Delete && s.RetentionBytes >= 0 {
		excess = log.sizeBytes - s.RetentionBytes
	}
	for i, segment := range segments {
		gone := segment.end <= log.logStart
		tooOld := expired(segment.newest, s, now)
		tooMuch := excess > 0 && excess >= segment.sizeBytes
		if segment.end > log.highWatermark || !gone && !tooOld && !tooMuch {
			return i
		}
		excess -= segment.sizeBytes
	}
	return len(segments)
}

// expired reports whether retention by time deletes a segment whose largest timestamp is newest.
func expired(newest int64, s topicconfig.Settings, now time.Time) bool {
	return s.Delete && s.RetentionTime >= 0 &&
		now.UnixMilli()-newest > s.RetentionTime.Milliseconds()
}

// applyRetention deletes the segments that have expired, and moves the log start to the first
// remaining segment. If the active segment has expired, applyRetention rolls it first. A rolled
// segment may be deleted before it is sealed: on a full disk there may be no space to seal any
// segment, and retention frees space.
func (l *Log) applyRetention(now time.Time) error {
	settings := l.Settings()
	// The active segment is rolled only when its end is at the high watermark. Retention deletes
	// nothing above the high watermark, so an earlier roll would only create one more small
	// segment.
	err := l.rollIf(func(active *segmentlist.Handle) bool {
		return active.SizeBytes() > 0 && l.offsets.HighWatermark() >= l.offsets.LogEnd() &&
			expired(active.Newest(), settings, now)
	})
	if err != nil {
		return err
	}
	for {
		count, err := l.deleteExpired(now)
		if err != nil || count < deletedAtOnce {
			return err
		}
	}
}

// deletedAtOnce is the maximum number of segments that are marked as deleted together. The number
// is limited because the files of these segments stay open until they are deleted.
const deletedAtOnce = 64

// deleteExpired deletes expired segments, at most deletedAtOnce of them, and returns their number.
func (l *Log) deleteExpired(now time.Time) (count int, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	// The settings are loaded under Log.maintain, which Configure holds too. So outdated settings
	// never delete a segment.
	settings := l.Settings()
	l.mu.Lock()
	handles := l.list.Handles()
	stopped := l.fault.StoppedLocked()
	l.mu.Unlock()
	if stopped != nil || len(handles) < 2 {
		return 0, nil
	}
	facts := logInfo{logStart: l.LogStart(), highWatermark: l.HighWatermark()}
	segments := make([]segmentInfo, len(handles)-1)
	for i, h := range handles {
		facts.sizeBytes += h.SizeBytes()
		if i < len(segments) {
			segments[i] = segmentInfo{end: handles[i+1].Base(), sizeBytes: h.SizeBytes(),
				newest: h.Newest()}
		}
	}
	count = min(countExpired(segments, facts, settings, now), deletedAtOnce)
	if count == 0 {
		return 0, nil
	}
	return count, frontDeletion{log: l, handles: handles}.run(count)
}

// frontDeletion deletes segments at the front of a log. The caller of its methods holds
// Log.maintain.
type frontDeletion struct {
	log     *Log
	handles []*segmentlist.Handle
}

// run deletes the first count segments of the list. The caller holds Log.maintain, so only the end
// of the segment list can change meanwhile.
//
// The files are renamed before the segments leave the list. A reader may use the files for a long
// time, and a restart must not treat them as segments of the log. If a segment cannot be renamed,
// this segment and all later ones stay in the list, and the next round retries. If such a segment
// left the list, its last reader would remove files whose names a new log in the same directory may
// use.
func (d frontDeletion) run(count int) error {
	l, handles := d.log, d.handles
	if err := l.snapshots.EnsureForDeletion(handles, count); err != nil {
		return err
	}
	if err := l.epochs.SaveBelow(handles[count].Base()); err != nil {
		return err
	}
	defer func() { l.disk.WritePendingSnapshot(handles[count:]) }()
	count, failed := d.mark(count)
	if count == 0 {
		return failed
	}
	return errors.Join(failed, d.publish(count))
}

// mark durably renames the first count segments of the list, and returns the number of renamed
// segments.
//
// Each rename is durable before the next step, because a filesystem may reorder operations.
// Otherwise a crash could revert the rename of one segment, with one of these results:
//
//   - If the rename of the next segment was not reverted, there is a gap between segments. Above
//     the recovery point on disk, recovery ends the log at a gap.
//   - If the segment was not sealed, the next flush moves the recovery point past the segment, and
//     recovery treats it as synced.
//   - The next checkpoints omit the number of the segment's aborted transactions. If the segment's
//     data file reappears without its transaction index, aborted records are returned as committed.
func (d frontDeletion) mark(count int) (marked int, err error) {
	l := d.log
	for i, h := range d.handles[:count] {
		if err = h.Rename(swap.DeletedSuffix); err == nil {
			err = l.files.Sync()
		}
		if err != nil {
			return i, fmt.Errorf("%w: mark segment %d as deleted: %w", ErrStorage, h.Base(), err)
		}
	}
	return count, nil
}

// publish moves the log start, and publishes the segment list without its first count segments. It
// does both even if it then fails to write the epoch file.
func (d frontDeletion) publish(count int) error {
	l, logStart := d.log, d.handles[count].Base()
	for _, h := range d.handles[:count] {
		h.Doomed.Store(true)
	}
	l.mu.Lock()
	l.disk.ForgetLocked(func(h *segmentlist.Handle) bool { return h.Base() < logStart })
	// The log start is stored before the list. So if a reader's list lacks a deleted segment, the
	// reader also finds that its offset is below the log start.
	l.offsets.RaiseLogStart(max(l.offsets.LogStart(), logStart), &l.mu.producers)
	old := l.list.Publish(l.list.Handles()[count:])
	l.mu.Unlock()
	old.Release()
	return l.epochs.TruncateFront(logStart)
}

// DeleteBefore deletes all records below an offset (DeleteRecords, KIP-107). A follower calls it
// after its leader has deleted records. It moves the log start to the offset and deletes the
// segments that end at or below the offset, whatever the topic's cleanup policy (KAFKA-7400). When
// it returns nil, a log start at or above the offset is on disk. An offset at or below the log
// start removes no record.
//
// It fails with ErrOffsetOutOfRange if the offset is above the high watermark, because records that
// are not replicated must not be deleted. It fails with ErrClosed if the log is closed. It fails
// with ErrStorage if the disk fails. After ErrStorage the log start may have moved in memory; a
// repeated call or the next checkpoints then store the new log start.
//
// The steps run in this order:
//
//  1. A flush writes a producer snapshot at the end of each segment that will be deleted. It also
//     ensures that the log does not end below its start after a crash.
//  2. The log start moves in memory. From then on, readers do not read deleted records.
//  3. The segments are deleted. In a compacted log, a pass is planned to remove the deleted records
//     of the first remaining segment.
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
	// If the log start has not moved in this call, an earlier call moved it and failed to write it.
	// No lock is held here, because writing the checkpoints reads the offsets of every log. The
	// checkpoints also contain the first dirty offset, which may now be below the log start.
	l.compaction.Progress.LogStartRaised()
	if err := l.env.saveCheckpoints(); err != nil {
		return fmt.Errorf("%w: save the log start: %w", ErrStorage, err)
	}
	return l.epochs.TruncateFront(l.offsets.LogStart())
}

// deleteBefore executes steps 1 to 3 of DeleteBefore, and reports whether the log start has moved.
// It holds Log.maintain, which serializes deletions of segments.
func (l *Log) deleteBefore(offset int64) (moved bool, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	handles, stopped := l.list.Handles(), l.fault.StoppedLocked()
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
	// frees space.
	if err := l.disk.FlushMaintained(); err != nil && !segmentlist.IsTemporary(err) {
		return false, err
	}
	if err := l.epochs.SaveBelow(offset); err != nil {
		return false, err
	}
	l.mu.Lock()
	l.offsets.RaiseLogStart(offset, &l.mu.producers)
	l.mu.Unlock()
	count := 0
	for count+1 < len(handles) && handles[count+1].Base() <= offset {
		count++
	}
	if count == 0 {
		return true, nil
	}
	return true, frontDeletion{log: l, handles: handles}.run(count)
}
