package cleanermap

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/api/report"
)

// Log is one partition replica according to its broker's last report. In the zero value, nothing is
// known about it.
type Log struct {
	Of       report.SegmentsOf
	Segments []report.Segment // ascending by Base
	Pass     *Progress        // the running pass; nil if none runs
}

// Progress is the progress of the running pass.
type Progress struct {
	ID       int64
	Announce map[int64]report.StepSegment // the segments as the pass found them, by base offset
	// From and To are the offset range of the segments that are being rewritten together (a group).
	// Both are 0 before the first group and after each replacement.
	From, To int64
	Read     map[int64]int64 // position up to which each segment of the group was read, by base offset
	Written  map[int64]bool  // base offsets of the segments that this pass has written
}

func newProgress(id int64) *Progress {
	return &Progress{ID: id, Announce: map[int64]report.StepSegment{}, Read: map[int64]int64{},
		Written: map[int64]bool{}}
}

// ApplySegments applies a segments event.
func (l *Log) ApplySegments(event *report.SegmentsEvent) {
	l.Of = event.SegmentsOf
	if event.Whole {
		l.Segments = nil
	}
	if event.Gone {
		*l = Log{Of: event.SegmentsOf}
		return
	}
	for _, base := range event.Removed {
		if index, found := l.find(base); found {
			l.Segments = slices.Delete(l.Segments, index, index+1)
		}
	}
	for _, segment := range event.Segments {
		index, found := l.find(segment.Base)
		if found {
			l.Segments[index] = segment
		} else {
			l.Segments = slices.Insert(l.Segments, index, segment)
		}
	}
}

func (l *Log) find(base int64) (index int, found bool) {
	return slices.BinarySearchFunc(l.Segments, base,
		func(s report.Segment, base int64) int { return cmp.Compare(s.Base, base) })
}

// ApplyPass applies a pass event: a pass is running, with its steps so far, or has ended.
func (l *Log) ApplyPass(pass *report.PartitionPass) {
	if pass.Result != "" {
		if l.Pass != nil && l.Pass.ID <= pass.ID {
			l.Pass = nil
		}
		return
	}
	if l.Pass == nil || l.Pass.ID != pass.ID {
		l.Pass = newProgress(pass.ID)
	}
	for i := range pass.Steps {
		l.Pass.apply(&pass.Steps[i])
	}
}

// ApplyStep applies a step event.
func (l *Log) ApplyStep(event *report.StepEvent) {
	if event.Kind == report.StepEnd {
		if l.Pass != nil && l.Pass.ID == event.Pass {
			l.Pass = nil
		}
		return
	}
	if l.Pass == nil || l.Pass.ID != event.Pass {
		l.Pass = newProgress(event.Pass)
	}
	l.Pass.apply(&event.Step)
}

func (p *Progress) apply(step *report.Step) {
	switch step.Kind {
	case report.StepAnnounce:
		for _, s := range step.Segments {
			p.Announce[s.Base] = s
		}
	case report.StepGroup:
		p.From, p.To = value(step.From), value(step.To)
		clear(p.Read)
	case report.StepRead:
		if step.Base != nil {
			p.Read[*step.Base] = step.Position
		}
	case report.StepReplace:
		for base := range p.Announce {
			if value(step.From) <= base && base < value(step.To) {
				delete(p.Announce, base)
			}
		}
		for _, s := range step.Segments {
			p.Written[s.Base] = true
		}
		p.From, p.To = 0, 0
		clear(p.Read)
	}
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// Pieces returns the log's segments in the form in which the map shows them.
func (l *Log) Pieces() []Piece {
	pieces := make([]Piece, len(l.Segments))
	for i := range l.Segments {
		s := &l.Segments[i]
		pieces[i] = Piece{Base: s.Base, Last: s.LastOffset, Bytes: s.Bytes, State: s.State,
			BlockedBy: s.BlockedBy, Garbage: min(value(s.GarbageBytes), s.Bytes),
			Chosen: s.Chosen, Forced: s.Forced}
		l.Pass.mark(&pieces[i])
	}
	return pieces
}

// mark sets the fields of a piece that describe what the running pass does with the segment.
func (p *Progress) mark(piece *Piece) {
	if p == nil {
		return
	}
	if p.Written[piece.Base] {
		// A segment that this pass has written may have the same base offset as a segment that it has
		// read.
		piece.Written, piece.Chosen, piece.Forced = true, false, false
		return
	}
	if found, ok := p.Announce[piece.Base]; ok {
		piece.Known, piece.Chosen, piece.Forced = true, found.Chosen, found.Forced
		// The pass has just counted the garbage; the value in the report of the segment is older.
		piece.Garbage = min(found.GarbageBytes, piece.Bytes)
	}
	if p.From <= piece.Base && piece.Base < p.To {
		piece.Current = true
		piece.Read = min(p.Read[piece.Base], piece.Bytes)
	}
}
