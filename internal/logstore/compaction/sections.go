package compaction

import (
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Values of the label reason of heartwood_log_blocked_bytes: the reasons why bytes at or above the
// cleanable bound cannot be cleaned now. Only the cleaner uses BlockedQuarantined.
const (
	BlockedActive       = "active_segment"
	BlockedMinLag       = "min_lag"
	BlockedUnreplicated = "unreplicated"
	BlockedTransaction  = "open_transaction"
	BlockedQuarantined  = "quarantined"
)

// Sections divides a compacted log at one moment into the clean section below FirstDirty, the dirty
// section from FirstDirty to Bound, and the blocked bytes above Bound, which cannot be cleaned now.
// It holds no reference to segments.
//
// Invariant: FirstDirty <= Bound.
type Sections struct {
	LogStart   int64
	FirstDirty int64
	// Bound is the cleanable bound: the base offset of the first segment that cannot be cleaned
	// (cleaner invariant I2).
	Bound      int64
	CleanBytes int64
	DirtyBytes int64
	// Blocked is the number of bytes above Bound, by reason.
	Blocked map[string]int64
	// OldestDirty is the time at which the oldest dirty segment's first batch was written; zero if
	// no segment is dirty.
	OldestDirty time.Time
	// Deleted is true if the first segment begins below the log start, because DeleteRecords has
	// deleted a part of the segment. A pass may have removed the deleted records already.
	Deleted bool
	// DeletedActive is true if the partly deleted segment is the active one, which must be rolled
	// first.
	DeletedActive bool
	Segments      int   // number of segments below Bound
	Records       int64 // estimated number of records below Bound
	// Truncations is the number of truncations of the log (Compaction.Truncations) when the
	// sections were computed.
	Truncations int64
	// TombstonesDue is the time (Unix milliseconds) from which the log needs a pass for its
	// tombstones, or a special value of package progress.
	TombstonesDue int64
}

// runningPass describes a pass that has replaced segments and has not ended yet.
type runningPass struct {
	bound int64
	ratio float64 // dirty ratio below the bound when the pass began
}

// during corrects the sections while a pass replaces segments: the part of the log below the pass's
// bound keeps the dirty ratio that it had when the pass began. An output segment may extend over
// the first dirty offset, which moves only when the pass ends. Without the correction, the whole
// log could therefore count as dirty until then.
func (s *Sections) during(p *runningPass, cleanable []*segmentlist.Handle) {
	below := int64(0)
	for _, h := range cleanable {
		if h.Base() < p.bound {
			below += h.SizeBytes()
		}
	}
	above := s.CleanBytes + s.DirtyBytes - below
	s.DirtyBytes = int64(math.Round(p.ratio * float64(below)))
	s.CleanBytes = below - s.DirtyBytes
	s.DirtyBytes += above
}

// DirtyRatio returns Kafka's dirty ratio, 0 to 1 (cleaner invariant I4).
func (s Sections) DirtyRatio() float64 {
	if s.CleanBytes+s.DirtyBytes == 0 {
		return 0
	}
	return float64(s.DirtyBytes) / float64(s.CleanBytes+s.DirtyBytes)
}

// cleanableLimits are the offsets from which Sections are computed, together with the segments.
type cleanableLimits struct {
	logStart int64
	// lastStable is the last stable offset. Records above it are not cleaned, because their
	// transactions may still be aborted (cleaner invariant I2).
	lastStable int64
	// replicated is the high watermark. An open transaction blocks cleaning between lastStable and
	// replicated.
	replicated int64
	end        int64 // durability.Disk.SealedEnd; nothing above it is cleaned
	firstDirty int64 // within [logStart, logEnd]; see Progress.FirstDirtyIn
}

// limits returns the segment list, which the caller releases, and the limits. It never waits for
// the disk, because a metrics scrape must not wait for an append that waits for the disk.
//
// limits acquires the list before it loads sealedEnd. A roll lowers sealedEnd before it publishes
// the list with the rolled segment. So every segment of the list that ends at or below the loaded
// value is sealed. If something changes later, the result is outdated but harmless: replaceIn
// checks the segments, sealedEnd and the number of truncations again under the lock.
func (c *Compaction) limits() (*segmentlist.List, cleanableLimits) {
	list := c.env.List.Acquire()
	return list, c.currentLimits()
}

// currentLimits returns the limits for a list that was already acquired.
func (c *Compaction) currentLimits() cleanableLimits {
	o := c.env.Offsets
	logStart := o.LogStart()
	return cleanableLimits{
		logStart:   logStart,
		lastStable: o.LastStable(),
		replicated: o.HighWatermark(),
		end:        c.env.SealedEnd(),
		firstDirty: c.Progress.FirstDirtyIn(logStart, o.LogEnd()),
	}
}

// SegmentState is the part of the log to which a segment belongs.
type SegmentState int8

// The states of segments.
const (
	// SegmentUncompacted is the state of every segment of a log that is not compacted.
	SegmentUncompacted SegmentState = iota
	// SegmentExpired is below the log start. Retention will delete it.
	SegmentExpired
	SegmentClean
	SegmentDirty
	SegmentBlocked
)

// eachSegment calls visit for each segment of a compacted log, in ascending order, with the
// segment's state. BlockedBy is the reason why the segment is blocked, or "". No segment is divided
// between two sections. The segment that contains firstDirty is dirty as a whole, as in Kafka's
// ratio (cleaner invariant I4).
//
// The cleanable bound is the base offset of the first blocked segment (cleaner invariant I2). Such
// a segment exists, because the active segment is always blocked. Every later segment is blocked
// for the same reason, because a record above a blocked segment must not supersede a record below
// that segment.
func eachSegment(handles []*segmentlist.Handle, limits cleanableLimits,
	settings *topicconfig.Settings,
	now time.Time, visit func(h *segmentlist.Handle, state SegmentState, blockedBy string)) {
	blocked := ""
	for i, h := range handles {
		last := i == len(handles)-1
		if !last && handles[i+1].Base() <= limits.logStart {
			visit(h, SegmentExpired, "")
			continue
		}
		dirty := last || handles[i+1].Base() > limits.firstDirty
		if blocked == "" {
			blocked = blockedBy(handles, i, dirty, limits, settings, now)
		}
		switch {
		case blocked != "" && last:
			visit(h, SegmentBlocked, BlockedActive)
		case blocked != "":
			visit(h, SegmentBlocked, blocked)
		case dirty:
			visit(h, SegmentDirty, "")
		default:
			visit(h, SegmentClean, "")
		}
	}
}

// divide computes the sections of a log, and returns the handles of the segments below the bound.
func divide(handles []*segmentlist.Handle, limits cleanableLimits, settings *topicconfig.Settings,
	now time.Time) (s Sections, cleanable []*segmentlist.Handle) {
	s = Sections{LogStart: limits.logStart, Blocked: map[string]int64{}}
	bounded := false
	eachSegment(handles, limits, settings, now, func(h *segmentlist.Handle, state SegmentState,
		reason string) {
		switch state {
		case SegmentExpired:
			return
		case SegmentBlocked:
			s.Blocked[reason] += h.SizeBytes()
			if !bounded {
				s.Bound, bounded = h.Base(), true
			}
			return
		case SegmentDirty:
			s.DirtyBytes += h.SizeBytes()
			if written := h.FirstWritten(); h.SizeBytes() > 0 &&
				(s.OldestDirty.IsZero() || written.Before(s.OldestDirty)) {
				s.OldestDirty = written
			}
		default:
			s.CleanBytes += h.SizeBytes()
		}
		cleanable = append(cleanable, h)
		s.Records += segmentlist.EstimateRecords(h)
	})
	s.Segments, s.FirstDirty = len(cleanable), min(limits.firstDirty, s.Bound)
	s.DeletedActive = handles[len(handles)-1].Base() < limits.logStart
	s.Deleted = len(cleanable) > 0 && cleanable[0].Base() < limits.logStart
	return s, cleanable
}

// blockedBy returns the reason why the segment handles[i] cannot be cleaned, or "" if it can be
// cleaned. MinLag blocks only dirty segments: a clean segment was old enough when it was cleaned,
// and a higher MinLag must not move the end of the cleanable section below firstDirty.
func blockedBy(handles []*segmentlist.Handle, i int, dirty bool, limits cleanableLimits,
	settings *topicconfig.Settings, now time.Time) string {
	if i == len(handles)-1 {
		return BlockedActive
	}
	end := handles[i+1].Base()
	lag := settings.MinLag
	switch {
	case end > limits.replicated:
		return BlockedUnreplicated
	case end > limits.lastStable:
		return BlockedTransaction
	case end > limits.end:
		return BlockedActive // BlockedActive also covers a recently rolled segment that is not sealed yet
	case dirty && lag > 0 && handles[i].LastWritten() > now.Add(-lag).UnixMilli():
		return BlockedMinLag
	}
	return ""
}
