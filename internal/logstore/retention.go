package logstore

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// segmentFacts is what retention goes by.
type segmentFacts struct {
	end       int64 // where the next segment begins
	sizeBytes int64
	newest    int64 // ms; the largest timestamp, or the modification time if there is none
}

// logFacts is the rest of it.
type logFacts struct {
	logStart      int64 // segments that end at or below it go whatever the policy
	highWatermark int64
	sizeBytes     int64 // of all segments, the active one too
}

// countExpired tells how many segments at the front are to go: those wholly below the log start
// whatever the policy (reference I34), and those retention by time or by size takes. Nothing above
// the high watermark goes, and a segment that stays keeps all behind it. segments are all but the
// active one, oldest first.
//
// By size a segment goes only if what is left is not below RetentionBytes, as in Kafka: the limit
// is the least that is kept.
func countExpired(segments []segmentFacts, log logFacts, s topicconfig.Settings,
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

// expired tells whether retention by time takes a segment whose largest timestamp is newest.
func expired(newest int64, s topicconfig.Settings, now time.Time) bool {
	return s.Delete && s.RetentionTime >= 0 &&
		now.UnixMilli()-newest > s.RetentionTime.Milliseconds()
}

// newest is the largest timestamp of the segment (ms), the file's time if no batch has one
// (reference I2, I34).
func (h *handle) newest() int64 {
	if ms, _ := h.MaxTimestamp(); ms >= 0 {
		return ms
	}
	return h.ModTime().UnixMilli()
}

// applyRetention deletes what retention takes, and moves the log start there. An active segment
// that is expired is rolled first. A rolled segment may go before it is sealed: on a full disk
// there may be no room to seal any, and retention is what makes room.
func (l *Log) applyRetention(now time.Time) error {
	if err := l.rollExpired(l.Settings(), now); err != nil {
		return err
	}
	for {
		count, err := l.deleteExpired(now)
		if err != nil || count < deletedAtOnce {
			return err
		}
	}
}

// deletedAtOnce bounds how many segments are marked as deleted at once: their files are open from
// then on until they go.
const deletedAtOnce = 64

// deleteExpired deletes a number of the segments that retention takes, and tells how many.
func (l *Log) deleteExpired(now time.Time) (count int, err error) {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	// only now: Configure holds Log.maintain, so what it returned for is not deleted by older
	// settings
	settings := l.Settings()
	l.mu.Lock()
	handles := l.currentLocked()
	stopped := l.mu.stopped
	l.mu.Unlock()
	if stopped != nil || len(handles) < 2 {
		return 0, nil
	}
	facts := logFacts{logStart: l.LogStart(), highWatermark: l.HighWatermark()}
	segments := make([]segmentFacts, len(handles)-1)
	for i, h := range handles {
		facts.sizeBytes += h.SizeBytes()
		if i < len(segments) {
			segments[i] = segmentFacts{end: handles[i+1].Base(), sizeBytes: h.SizeBytes(),
				newest: h.newest()}
		}
	}
	count = min(countExpired(segments, facts, settings, now), deletedAtOnce)
	if count == 0 {
		return 0, nil
	}
	return count, l.deleteFront(handles, count)
}

// rollExpired rolls an active segment that retention by time would take, so that it can. Not before
// all of it is below the high watermark: nothing above that may go, so the roll would only make one
// more small segment.
func (l *Log) rollExpired(settings topicconfig.Settings, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	handles := l.currentLocked()
	if l.mu.stopped != nil || l.mu.cut.isRunning() || len(handles) == 0 {
		return nil
	}
	active := handles[len(handles)-1]
	if active.SizeBytes() == 0 || l.highWatermark.Load() < l.logEnd.Load() ||
		!expired(active.newest(), settings, now) {
		return nil
	}
	return l.rollLocked()
}

// deleteFront takes the first count segments off the front. Log.maintain is held, so all but the
// end of the list stays as it is.
//
// They are renamed before they leave the list: a reader may keep the files for long, and a restart
// shall not find them again. A segment that cannot be renamed stays, with all behind it, and the
// next round tries again: were it dropped, its last reader would remove files by names that a log
// made meanwhile in the same directory may have.
//
// Each mark is durable before the next is made, also before that of the next round, as no disk
// promises to keep their order: a crash that kept the second one only would leave a gap, and above
// the recovery point on disk recovery ends the log at a gap.
func (l *Log) deleteFront(handles []*handle, count int) error {
	// On a full disk it goes on without: what is deleted makes room, also for this.
	state, err := l.stateMissingAt(handles, handles[count].Base())
	if err == nil && state != nil {
		if err = l.writeState(state); errors.Is(err, syscall.ENOSPC) {
			l.mu.Lock()
			l.mu.owed = state
			l.mu.Unlock()
			defer l.payOwed()
			err = nil
		}
	}
	if err != nil {
		return err
	}
	var failed error
	for i, h := range handles[:count] {
		if i > 0 || l.marked {
			failed = l.env.fs.SyncDir(l.dir)
		}
		if failed == nil {
			l.marked = true
			failed = h.Rename(deletedSuffix)
		}
		if failed != nil {
			count, failed = i,
				fmt.Errorf("%w: mark segment %d as deleted: %w", ErrStorage, h.Base(), failed)
			break
		}
	}
	if count == 0 {
		return failed
	}
	if err := l.forgetUnsealed(handles[count].Base()); err != nil {
		return errors.Join(failed, err)
	}
	for _, h := range handles[:count] {
		h.doomed.Store(true)
	}
	old, err := l.dropFront(count, handles[count].Base())
	old.release()
	return errors.Join(failed, err)
}

// forgetUnsealed lets go of rolled segments below logStart, which are marked as deleted, before
// they are sealed. Their marks are made durable first: the next flush moves the recovery point past
// them, and should a crash give them their names back, a start would take them for segments that
// were synced. Log.maintain is held, so no flush is under way.
func (l *Log) forgetUnsealed(logStart int64) error {
	gone := func(u unsealed) bool { return u.segment.Base() < logStart }
	l.mu.Lock()
	waiting := slices.ContainsFunc(l.mu.unsealed, gone)
	l.mu.Unlock()
	if !waiting {
		return nil
	}
	if err := l.env.fs.SyncDir(l.dir); err != nil {
		return fmt.Errorf("%w: sync the marks of deleted segments: %w", ErrStorage, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.unsealed = slices.DeleteFunc(slices.Clone(l.mu.unsealed), gone)
	l.settleDurableLocked()
	return nil
}

// dropFront moves the log start and publishes the list without its first count segments. The caller
// releases old, also after an error, which is that of the epoch file: the list has changed all the
// same.
func (l *Log) dropFront(count int, logStart int64) (old *segmentList, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// First the log start, then the list: a reader that finds a segment gone finds its offset out
	// of range too.
	l.logStart.Store(max(l.logStart.Load(), logStart))
	old = l.publishLocked(l.currentLocked()[count:])
	// Written only when an epoch went. That the first one begins at the log start now changes no
	// answer at or above it, and is not worth two syncs under Log.mu; the next start works it out
	// (install).
	if epochs := l.epochs.Load().TruncateFront(logStart); len(epochs) != len(*l.epochs.Load()) {
		err = l.saveEpochs(epochs)
	}
	return old, err
}
