package cleaner

import (
	"fmt"
	"maps"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Segments returns the report on a log's segments: at most limit rows, starting with the segment
// that contains the offset from. The caller sets the broker, and whether the broker is the leader.
func (c *Cleaner) Segments(id logstore.PartitionID, from int64, limit int) (report.Segments,
	error) {
	log := c.store.Log(id)
	if log == nil {
		return report.Segments{}, fmt.Errorf("%w: %s", ErrUnknownPartition, id)
	}
	now := time.Now()
	rows, err := log.Compaction().SegmentRows(from, limit, now)
	if err != nil {
		return report.Segments{}, fmt.Errorf("report segments of %s: %w", id, err)
	}
	marks := c.segmentMarks(log.Compaction(), now)
	all := report.Segments{
		SegmentsOf: report.SegmentsOf{Topic: id.Topic, Partition: id.Index,
			Compacted: rows.Compacted, LogStartOffset: rows.LogStart, LogEndOffset: rows.LogEnd,
			FirstDirtyOffset: rows.FirstDirty, BoundOffset: rows.Bound, Total: rows.Total},
		Segments: make([]report.Segment, 0, len(rows.Rows)),
	}
	if rows.Next >= 0 {
		all.Next = &rows.Next
	}
	for i := range rows.Rows {
		all.Segments = append(all.Segments, segmentReport(&rows.Rows[i], marks, now))
	}
	return all, nil
}

// segmentMarks contains the information that the cleaner adds to the rows of a log's segments.
type segmentMarks struct {
	quarantined bool
	chosen      map[int64]bool // see logState.chosen; a copy
}

// segmentMarks returns the marks of a log.
func (c *Cleaner) segmentMarks(log *compaction.Compaction, now time.Time) segmentMarks {
	settings := log.Settings()
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.mu.logs[log.ID()]
	if state == nil || state.log != log {
		return segmentMarks{}
	}
	return segmentMarks{quarantined: c.isQuarantinedLocked(state, settings, now),
		chosen: maps.Clone(state.chosen)}
}

// isQuarantinedLocked reports whether the log is reported as quarantined; see phaseLocked.
func (c *Cleaner) isQuarantinedLocked(state *logState, settings *topicconfig.Settings,
	now time.Time) bool {
	return !state.running() && c.mu.opts.Workers > 0 && state.quarantine.active(now, settings)
}

// segmentStates maps each compaction.SegmentState to its name in a report.
var segmentStates = map[compaction.SegmentState]string{
	compaction.SegmentUncompacted: report.SegmentUncompacted,
	compaction.SegmentExpired:     report.SegmentExpired,
	compaction.SegmentClean:       report.SegmentClean,
	compaction.SegmentDirty:       report.SegmentDirty,
	compaction.SegmentBlocked:     report.SegmentBlocked,
}

// SegmentStateName returns the name of a state in report.Segment.State.
func SegmentStateName(state compaction.SegmentState) string { return segmentStates[state] }

// segmentReport returns the report on one segment at the time now.
func segmentReport(row *compaction.SegmentRow, marks segmentMarks, now time.Time) report.Segment {
	s := report.Segment{Base: row.Base, LastOffset: row.LastOffset, Bytes: row.SizeBytes,
		State: SegmentStateName(row.State), BlockedBy: row.BlockedBy}
	if marks.quarantined && row.State == compaction.SegmentDirty {
		s.BlockedBy = compaction.BlockedQuarantined
	}
	s.Forced, s.Chosen = marks.chosen[row.Base]
	if row.HasBatches {
		s.Codec = row.Codec.String()
		s.Oldest, s.Newest = millisToSeconds(row.OldestMs), millisToSeconds(row.NewestMs)
	}
	if n := row.Counts; n != nil {
		s.Records, s.Tombstones, s.NullKeys = new(int64(n.Records)), new(int64(n.Tombstones)),
			new(int64(n.NullKeys))
	}
	if g := row.Garbage; g != nil {
		s.GarbageBytes, s.GarbageRecords = &g.Bytes, &g.Records
		if g.CountedMs > 0 {
			s.Counted = millisToSeconds(g.CountedMs)
		}
	}
	for _, clock := range row.Clocks {
		s.Clocks = append(s.Clocks, ClockReport(clock, now))
	}
	return s
}

// ClockReport returns the report on a group of tombstones at the time now.
func ClockReport(clock progress.TombstoneClock, now time.Time) report.TombstoneClock {
	r := report.TombstoneClock{Count: clock.Count, Since: *millisToSeconds(clock.SinceMs),
		WaitsFor: report.WaitsForReplicas}
	if !clock.Replicated {
		return r
	}
	r.GoesFrom, r.WaitsFor = millisToSeconds(clock.GoesFromMs), report.WaitsForRetention
	if clock.GoesFromMs <= now.UnixMilli() {
		r.WaitsFor = report.WaitsForPass
	}
	return r
}

// millisToSeconds converts Unix milliseconds to Unix seconds.
func millisToSeconds(ms int64) *float64 { return new(float64(ms) / 1000) }
