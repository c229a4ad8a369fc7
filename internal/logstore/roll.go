package logstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// rollBefore reports whether a batch with assigned offsets needs a new segment. This is the case if
// the active segment would exceed its maximum size, an index has no room, or the relative offset
// would exceed 31 bits. It is also the case if the batch's timestamp is later than the segment's
// first timestamp by more than the segment's maximum age.
func rollBefore(active *segment.Segment, b record.Parts, config *config) bool {
	size := active.SizeBytes()
	if size == 0 {
		// A batch of any size fits into an empty segment. A roll would create a second segment with
		// the same base offset.
		return false
	}
	if size > config.settings.SegmentBytes-int64(b.SizeBytes()) || !active.Fits(b) {
		return true
	}
	first, ok := active.FirstTimestamp()
	return ok && b.MaxTimestamp()-first > segmentAge(config.settings, active.Base()).Milliseconds()
}

// segmentAge returns the age at which an active segment with the given base offset is rolled: the
// configured age minus the jitter. In a compacted topic the age is at most MaxLag, because the
// active segment is never cleaned.
func segmentAge(s topicconfig.Settings, base int64) time.Duration {
	age := s.SegmentAge
	if s.Compact && s.MaxLag > 0 && s.MaxLag < age {
		age = s.MaxLag
	}
	return age - jitter(min(s.SegmentJitter, age), base)
}

// jitter returns the jitter of a segment, which is less than the maximum jitter longest. Kafka
// chooses it at random for each segment. Here it depends only on the base offset. So a restart does
// not change when a segment is rolled, and the replicas of a partition roll at the same offsets.
func jitter(longest time.Duration, base int64) time.Duration {
	if longest <= 0 {
		return 0
	}
	// Fibonacci hashing maps similar base offsets to distant values.
	mixed := (uint64(base) + 1) * 0x9e3779b97f4a7c15
	mixed ^= mixed >> 32
	return time.Duration(mixed % uint64(longest))
}

// rollLocked creates a new active segment. The next flush seals and syncs the old segment, because
// an append must not wait for a sync. Before that flush, a crash may lose the end of the old
// segment and keep the new segment. Recovery detects this as a gap (ADR 0015). The caller holds
// Log.mu.
func (l *Log) rollLocked() error {
	end := l.offsets.LogEnd()
	next, err := l.files.Create(end, l.config.Load().indexes(l.env.segments))
	if err != nil {
		return err // the old segment is unchanged; a later append rolls it once the disk has space
	}
	handles := l.list.Handles()
	old := handles[len(handles)-1]
	// disk.RolledLocked must be called before the list with the rolled segment is published; see
	// Compaction.limits.
	l.disk.RolledLocked(old, end, l.mu.producers.Encode(end))
	l.mu.firstAppend = time.Time{}
	// The new list contains all segments of the old list, so releasing the old list closes no file.
	l.list.Publish(append(handles[:len(handles):len(handles)], next)).Release()
	l.compaction.Sidecars.Spools.RollLocked(old)
	return nil
}

// rollIf rolls the active segment if the function due returns true. It calls due under Log.mu.
func (l *Log) rollIf(due func(active *segmentlist.Handle) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.StoppedLocked() != nil || l.mu.truncation.isRunning() ||
		!due(l.list.Load().Active()) {
		return nil
	}
	return l.rollLocked()
}

// rollIdle rolls an active segment that has reached its maximum age although no append has rolled
// it. (Kafka does not roll such a segment, so an idle compacted partition exceeds its maxLag.) The
// age is measured by the broker's clock, from the first append to the segment. If record timestamps
// measured the age, a producer that sends old data would cause a roll at every tick.
func (l *Log) rollIdle(now time.Time) error {
	return l.rollIf(func(active *segmentlist.Handle) bool {
		return !l.mu.firstAppend.IsZero() &&
			now.Sub(l.mu.firstAppend) > segmentAge(l.Settings(), active.Base())
	})
}

// rollNow rolls the active segment if it contains records, and returns the log end.
func (l *Log) rollNow() (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fault.StoppedLocked() != nil:
		return 0, l.fault.StoppedLocked()
	case !l.mu.truncation.isRunning() && !l.mu.firstAppend.IsZero():
		err = l.rollLocked()
	}
	return l.offsets.LogEnd(), err
}

// tooFar reports whether a batch is so far above the log end that a segment which begins at the log
// end cannot contain it: relative offsets in a segment have 31 bits. A leader's log contains such a
// gap if cleaning has removed more than 2^31 records.
func tooFar(b record.Batch, logEnd int64) bool { return b.LastOffset()-logEnd > math.MaxInt32 }

// skipTo raises the log end to an offset and begins a segment there. The caller ensures that no
// record below the offset will be appended later.
//
// Above the recovery point, segments must follow each other without gaps, because recovery treats a
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
	if l.fault.StoppedLocked() == nil && l.disk.CheckpointedLocked() < offset {
		return fmt.Errorf("%w: the recovery point is not behind the gap", ErrStorage)
	}
	return l.fault.StoppedLocked()
}

// rollAt begins a segment at an offset above the log end, and moves the recovery point to this
// offset.
func (l *Log) rollAt(offset int64) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := l.disk.FlushMaintained(); err != nil {
		return err
	}
	l.mu.Lock()
	err := l.fault.StoppedLocked()
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
	// An unsaved leader epoch would hold back the recovery point on disk.
	return errors.Join(l.disk.FlushMaintained(), l.epochs.Save())
}
