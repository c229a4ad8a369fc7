package logstore

import (
	"errors"
	"fmt"

	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// segmentInfo holds the properties of a segment that retention uses.
type segmentInfo struct {
	end       int64 // base of the next segment
	sizeBytes int64
	newest    int64 // ms; the largest timestamp, or the modification time if there is none
}

// logInfo holds the properties of a log that retention uses.
type logInfo struct {
	logStart      int64 // segments that end at or below it are deleted whatever the policy
	highWatermark int64
	sizeBytes     int64 // of all segments, including the active one
}

// countExpired returns how many segments at the front are to be deleted: those wholly below the log
// start whatever the policy, and those that retention by time or by size deletes. Nothing above the
// high watermark is deleted, and a segment that stays keeps all behind it. segments are all but the
// active one, oldest first.
//
// Retention by size deletes a segment only if the remaining segments have at least RetentionBytes,
// as in Kafka: the limit is the minimum size that is kept.
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

// newest returns the largest timestamp of the segment (ms), the file's modification time if no
// batch has one.
func (h *handle) newest() int64 {
	if ms, _ := h.MaxTimestamp(); ms >= 0 {
		return ms
	}
	return h.ModTime().UnixMilli()
}

// applyRetention deletes the segments that retention deletes, and moves the log start to the first
// remaining segment. It first rolls an active segment that is expired. A rolled segment may be
// deleted before it is sealed: on a full disk there may be no room to seal any, and retention makes
// room.
func (l *Log) applyRetention(now time.Time) error {
	settings := l.Settings()
	// The active segment is rolled only once all of it is below the high watermark: no segment
	// above the high watermark is deleted, so an earlier roll would only create one more small
	// segment.
	err := l.rollIf(func(active *handle) bool {
		return active.SizeBytes() > 0 && l.highWatermark.Load() >= l.logEnd.Load() &&
			expired(active.newest(), settings, now)
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

// deletedAtOnce bounds the segments that are marked as deleted at once: their files are open until
// they are deleted.
const deletedAtOnce = 64

// deleteExpired deletes some of the segments that retention deletes, and returns how many.
func (l *Log) deleteExpired(now time.Time) (count int, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	// The settings are read under Log.maintain, which Configure holds too, so replaced settings
	// delete nothing.
	settings := l.Settings()
	l.mu.Lock()
	handles := l.currentLocked()
	stopped := l.mu.stopped
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
				newest: h.newest()}
		}
	}
	count = min(countExpired(segments, facts, settings, now), deletedAtOnce)
	if count == 0 {
		return 0, nil
	}
	return count, l.deleteFront(handles, count)
}

// deleteFront deletes the first count segments. Log.maintain is held, so everything but the end of
// the list stays as it is.
//
// The files are renamed before the segments leave the list: a reader may keep the files for long,
// and a restart must not find them as segments again. A segment that cannot be renamed stays in the
// list, with all segments behind it, and the next round retries. If such a segment left the list,
// its last reader would remove files whose names a new log in the same directory may use.
func (l *Log) deleteFront(handles []*handle, count int) error {
	if err := l.snapshots.ensureForDeletion(handles, count); err != nil {
		return err
	}
	defer func() { l.writePendingSnapshot(handles[count:]) }()
	d := frontDeletion{log: l, handles: handles}
	count, failed := d.mark(count)
	if count == 0 {
		return failed
	}
	return errors.Join(failed, d.publish(count))
}

// frontDeletion deletes segments at the front of a log. Log.maintain is held while it runs.
type frontDeletion struct {
	log     *Log
	handles []*handle
}

// mark durably renames the first count segments, and returns how many it has renamed.
//
// Each mark is durable before anything else happens, because no disk promises to keep an order, and
// a crash could otherwise revert a part of it:
//
//   - If the next mark was kept and this one was not, there would be a gap, and above the recovery
//     point on disk recovery ends the log at a gap.
//   - If the segment was not sealed, the next flush would move the recovery point past it, and
//     recovery would open it as synced.
//   - The next checkpoints no longer count its aborted transactions. If its data file was restored
//     without its transaction index, their records would be returned as committed.
func (d frontDeletion) mark(count int) (marked int, err error) {
	l := d.log
	for i, h := range d.handles[:count] {
		if err = h.Rename(deletedSuffix); err == nil {
			err = l.files.sync()
		}
		if err != nil {
			return i, fmt.Errorf("%w: mark segment %d as deleted: %w", ErrStorage, h.Base(), err)
		}
	}
	return count, nil
}

// publish moves the log start, and publishes the list without the first count segments, also if it
// fails to write the epoch file.
func (d frontDeletion) publish(count int) error {
	l, logStart := d.log, d.handles[count].Base()
	for _, h := range d.handles[:count] {
		h.doomed.Store(true)
	}
	l.mu.Lock()
	l.disk.forget(func(u unsealed) bool { return u.segment.Base() < logStart })
	// The log start is stored before the list, so a reader that does not find a segment also finds
	// its offset out of range.
	l.logStart.Store(max(l.logStart.Load(), logStart))
	old := l.publishLocked(l.currentLocked()[count:])
	err := l.epochs.truncateFront(logStart)
	l.mu.Unlock()
	old.release()
	return err
}
