package logstore

import (
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// rollBefore tells whether a batch, offsets set, has to go into a new segment: the size would be
// passed, an index or the 31-bit relative offset is full, or the batch is more than the segment's
// age, by the timestamps of records, after its first batch.
func rollBefore(active *segment.Segment, b record.Parts, config *config) bool {
	size := active.SizeBytes()
	if size == 0 {
		// a batch of any size fits into an empty segment; and a second one of the same base cannot
		// be
		return false
	}
	if size > config.settings.SegmentBytes-int64(b.SizeBytes()) || !active.Fits(b) {
		return true
	}
	first, ok := active.FirstTimestamp()
	return ok && b.MaxTimestamp()-first > segmentAge(config.settings, active.Base()).Milliseconds()
}

// segmentAge is how old the active segment of a base offset may get, the jitter off: a compacted
// topic's MaxLag counts, as the active segment is never cleaned.
func segmentAge(s topicconfig.Settings, base int64) time.Duration {
	age := s.SegmentAge
	if s.Compact && s.MaxLag > 0 && s.MaxLag < age {
		age = s.MaxLag
	}
	return age - jitter(min(s.SegmentJitter, age), base)
}

// jitter is a segment's share of the longest jitter, 0 up to it. Kafka draws it anew for each
// segment; here the base offset decides, so that a restart does not move the end of a segment, and
// the same partition's replicas roll alike.
func jitter(longest time.Duration, base int64) time.Duration {
	if longest <= 0 {
		return 0
	}
	mixed := (uint64(base) + 1) * 0x9e3779b97f4a7c15 // Fibonacci hashing: neighbours come far apart
	mixed ^= mixed >> 32
	return time.Duration(mixed % uint64(longest))
}

// rollLocked begins a new active segment. The old one is sealed and synced by the next flush, so
// that an append does not wait for the disk: until then a crash may lose its end while it keeps the
// new segment, which recovery finds as a gap (ADR 0015).
func (l *Log) rollLocked() error {
	end := l.logEnd.Load()
	next, err := l.files.create(end, l.config.Load().indexes(l.env.segments))
	if err != nil {
		return err // the old segment is untouched: when space is back, the next append rolls
	}
	handles := l.currentLocked()
	old := handles[len(handles)-1]
	// Before the list with the rolled segment is published: see cleanFacts.
	l.disk.rolled(unsealed{segment: old, end: end, state: l.mu.producers.Encode(end)})
	l.mu.firstAppend = time.Time{}
	// The old list's segments are all in the new one: its release closes nothing.
	l.publishLocked(append(handles[:len(handles):len(handles)], next)).release()
	l.compaction.sidecars.spools.rollLocked(old)
	return nil
}

// rollIf rolls the active segment if it is due; due is called under Log.mu.
func (l *Log) rollIf(due func(active *handle) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil || l.mu.truncation.isRunning() ||
		!due(l.list.Load().active()) {
		return nil
	}
	return l.rollLocked()
}

// rollIdle rolls a segment that has reached its age without an append that would roll it. (Kafka
// does not, so a quiet compacted partition breaks its promise of maxLag.) The age is counted by the
// broker's clock, from the first append to the segment: by the timestamps of records, a producer
// that sends old data would get a segment per tick.
func (l *Log) rollIdle(now time.Time) error {
	return l.rollIf(func(active *handle) bool {
		return !l.mu.firstAppend.IsZero() &&
			now.Sub(l.mu.firstAppend) > segmentAge(l.Settings(), active.Base())
	})
}

// rollNow rolls the active segment if it holds anything, and returns the log end.
func (l *Log) rollNow() (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.stopped != nil:
		return 0, l.mu.stopped
	case !l.mu.truncation.isRunning() && !l.mu.firstAppend.IsZero():
		err = l.rollLocked()
	}
	return l.logEnd.Load(), err
}
