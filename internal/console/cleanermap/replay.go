package cleanermap

import (
	"cmp"
	"slices"

	"heartwood.dev/heartwood/api/report"
)

// FramesMax is the number of frames above which a replay omits steps of kind read.
const FramesMax = 240

// Frame is the state of the log at one step of a pass.
type Frame struct {
	Step   int // index of the step
	Kind   string
	After  float64 // seconds since the start of the pass
	Pieces []Piece
	Freed  int64 // bytes that the pass has freed so far
	// Base is the segment that is being read, for kind read. From and To are the offset range, for
	// kinds group and replace.
	Base, From, To int64
	Group          int // number of segments in the group; for kind replace: of new segments
}

// Replay returns the frames of a pass, one for each step. If there are more than FramesMax steps,
// it omits steps of kind read. A pass whose steps were not kept has no frames.
func Replay(pass *report.PartitionPass) (frames []Frame) {
	keep := thin(pass.Steps)
	var r replay
	for i := range pass.Steps {
		step := &pass.Steps[i]
		r.apply(step)
		if keep(i) {
			frames = append(frames, r.frame(i, step))
		}
	}
	return frames
}

// thin returns a function that reports whether a step gets a frame. Steps of kinds other than read
// always do. As many steps of kind read as fit into FramesMax do too, evenly distributed.
func thin(steps []report.Step) func(i int) bool {
	reads := make([]int, len(steps)) // number of steps of kind read before each step
	count := 0
	for i := range steps {
		reads[i] = count
		if steps[i].Kind == report.StepRead {
			count++
		}
	}
	room := max(1, FramesMax-(len(steps)-count))
	every := max(1, (count+room-1)/room)
	return func(i int) bool {
		return steps[i].Kind != report.StepRead || reads[i]%every == 0
	}
}

// replay is the state of the log while a pass is replayed.
type replay struct {
	pieces []Piece // ascending by Base
	freed  int64
}

func (r *replay) apply(step *report.Step) {
	switch step.Kind {
	case report.StepAnnounce:
		r.announce(step.Segments)
	case report.StepGroup:
		for i := range r.pieces {
			p := &r.pieces[i]
			p.Current = value(step.From) <= p.Base && p.Base < value(step.To) && !p.Written
		}
	case report.StepRead:
		r.read(value(step.Base), step.Position)
	case report.StepReplace:
		r.replace(step)
	case report.StepEnd:
		for i := range r.pieces {
			r.pieces[i].Chosen, r.pieces[i].Forced, r.pieces[i].Current = false, false, false
		}
	}
}

// announce adds the segments that a step announces.
func (r *replay) announce(segments []report.StepSegment) {
	for _, s := range segments {
		piece := Piece{Base: s.Base, Bytes: s.Bytes, Garbage: min(s.GarbageBytes, s.Bytes),
			State: report.SegmentClean, Chosen: s.Chosen, Forced: s.Forced}
		if index, found := r.find(s.Base); found {
			r.pieces[index] = piece
		} else {
			r.pieces = slices.Insert(r.pieces, index, piece)
		}
	}
}

func (r *replay) find(base int64) (int, bool) {
	return slices.BinarySearchFunc(r.pieces, base,
		func(p Piece, base int64) int { return cmp.Compare(p.Base, base) })
}

// read sets the position up to which a segment has been read. The earlier segments of the group
// have been read completely.
func (r *replay) read(base, position int64) {
	for i := range r.pieces {
		p := &r.pieces[i]
		switch {
		case !p.Current:
		case p.Base < base:
			p.Read = p.Bytes
		case p.Base == base:
			p.Read = min(position, p.Bytes)
		}
	}
}

func (r *replay) replace(step *report.Step) {
	removed := int64(0)
	r.pieces = slices.DeleteFunc(r.pieces, func(p Piece) bool {
		inside := value(step.From) <= p.Base && p.Base < value(step.To)
		if inside {
			removed += p.Bytes
		}
		return inside
	})
	for _, s := range step.Segments {
		index, _ := r.find(s.Base)
		r.pieces = slices.Insert(r.pieces, index, Piece{Base: s.Base, Bytes: s.Bytes,
			Garbage: min(s.GarbageBytes, s.Bytes), State: report.SegmentClean, Written: true})
		removed -= s.Bytes
	}
	r.freed += removed
}

func (r *replay) frame(i int, step *report.Step) Frame {
	return Frame{Step: i, Kind: step.Kind, After: step.After, Pieces: slices.Clone(r.pieces),
		Freed: r.freed, Base: value(step.Base), From: value(step.From), To: value(step.To),
		Group: r.groupSize(step)}
}

func (r *replay) groupSize(step *report.Step) (n int) {
	if step.Kind == report.StepReplace {
		return len(step.Segments)
	}
	for i := range r.pieces {
		if r.pieces[i].Current {
			n++
		}
	}
	return n
}
