package compaction

import (
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// SegmentRows is a report of the segments of a log at one moment.
type SegmentRows struct {
	Compacted         bool
	LogStart, LogEnd  int64
	FirstDirty, Bound int64 // 0 if Compacted is false
	Total             int   // number of segments of the log
	Rows              []SegmentRow
	Next              int64 // base offset of the segment after the last row; -1 if there is none
}

// SegmentRow is a report of one segment. Timestamps are Unix milliseconds.
type SegmentRow struct {
	Base, LastOffset, SizeBytes int64 // LastOffset is Base-1 if the segment is empty
	State                       SegmentState
	BlockedBy                   string // reason of SegmentBlocked: one of the Blocked constants
	Counts                      *keys.Counts
	// Garbage is nil if no pass has counted the segment's garbage.
	Garbage *SegmentGarbage
	// Codec is the first batch's codec. Codec and the timestamps are valid if HasBatches is set.
	HasBatches         bool
	Codec              compress.Codec
	OldestMs, NewestMs int64
	Clocks             []progress.TombstoneClock
}

// SegmentGarbage is a segment's garbage as of a certain pass.
type SegmentGarbage struct {
	Bytes, Records int64
	CountedMs      int64 // start of the pass; 0 if the pass left no .dead file
}

// SegmentRows returns rows for at most limit segments, starting with the segment that contains the
// offset from. It reads the headers of files that no earlier call has read. Meanwhile it holds
// references to the segments of its rows, and acquires no lock. Its only error is
// segmentlist.ErrClosed.
func (c *Compaction) SegmentRows(from int64, limit int, now time.Time) (SegmentRows, error) {
	list, limits := c.limits()
	if list == nil {
		return SegmentRows{}, segmentlist.ErrClosed
	}
	settings := c.Settings()
	all, selected := arrange(list.Handles, limits, c.env.Offsets.LogEnd(), settings, now)
	first := list.Floor(from)
	last := min(len(list.Handles), first+max(0, limit))
	selected = selected[first:last]
	all.Next = -1
	if last < len(list.Handles) {
		all.Next = list.Handles[last].Base()
	}
	// The reference to the list is released before files are read. A truncation then waits at most
	// for the rows that it truncates.
	for _, s := range selected {
		s.handle.Acquire()
	}
	list.Release()
	all.Rows = make([]SegmentRow, 0, len(selected))
	for _, s := range selected {
		all.Rows = append(all.Rows, c.row(s, settings))
		s.handle.Release()
	}
	return all, nil
}

// StateOf is a segment with its state.
type StateOf struct {
	handle    *segmentlist.Handle
	State     SegmentState
	BlockedBy string
	Active    bool
}

// arrange returns the state of every segment, without reading a file.
func arrange(handles []*segmentlist.Handle, limits cleanableLimits, logEnd int64,
	settings *topicconfig.Settings, now time.Time) (all SegmentRows, segments []StateOf) {
	all = SegmentRows{Compacted: settings.Compact, LogStart: limits.logStart,
		LogEnd: logEnd, Total: len(handles)}
	segments = make([]StateOf, 0, len(handles))
	if !settings.Compact {
		for _, h := range handles {
			segments = append(segments, StateOf{handle: h})
		}
	} else {
		bounded := false
		eachSegment(handles, limits, settings, now,
			func(h *segmentlist.Handle, state SegmentState, blockedBy string) {
				if state == SegmentBlocked && !bounded {
					all.Bound, bounded = h.Base(), true
				}
				segments = append(segments, StateOf{handle: h, State: state,
					BlockedBy: blockedBy})
			})
		all.FirstDirty = min(limits.firstDirty, all.Bound)
	}
	segments[len(segments)-1].Active = true
	return all, segments
}

// States returns the state of every segment of a previously acquired list, without reading any
// file.
func (c *Compaction) States(handles []*segmentlist.Handle, now time.Time) (all SegmentRows,
	segments []StateOf) {
	return arrange(handles, c.currentLimits(), c.env.Offsets.LogEnd(), c.Settings(), now)
}

// row returns the row of a segment.
func (c *Compaction) row(s StateOf, settings *topicconfig.Settings) SegmentRow {
	h := s.handle
	row := SegmentRow{Base: h.Base(), LastOffset: h.NextOffset() - 1, SizeBytes: h.SizeBytes(),
		State: s.State, BlockedBy: s.BlockedBy}
	if row.OldestMs, row.HasBatches = h.FirstTimestamp(); row.HasBatches {
		row.NewestMs, _ = h.MaxTimestamp()
		row.Codec, row.HasBatches = h.FirstCodec()
	}
	if s.State == SegmentUncompacted || s.Active {
		return row
	}
	if counts, ok := c.Sidecars.CountsOf(h); ok {
		row.Counts = &counts
	}
	d := c.Dead.Summary(h)
	switch {
	case d != nil && d.ComputedThrough <= c.env.Offsets.LogEnd() &&
		d.Lineage == c.env.EpochBelow(d.ComputedThrough):
		row.Garbage = &SegmentGarbage{Bytes: d.DeadBytes, Records: int64(d.DeadRecords),
			CountedMs: d.PassedAtMs}
		row.Clocks = c.Progress.Clocks(d, row.LastOffset, settings)
	case d == nil && s.State == SegmentClean:
		// A segment without a .dead file has no garbage, because a pass writes the .dead files
		// before it moves the first dirty offset.
		row.Garbage = &SegmentGarbage{}
	}
	return row
}
