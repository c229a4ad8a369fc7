package passlog

import (
	"math"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// readStride is the number of bytes between two steps of kind read in a short pass.
const readStride = 64 << 10

// Recorder keeps the steps of one pass. If a long pass has more steps than can be kept, the
// recorder keeps only every second step of kind read, then only every fourth, and so on. In the end
// it adds no further group. The zero value is not ready for use; see newRecorder.
type Recorder struct {
	began time.Time
	steps []report.Step
	// stride is the number of bytes between two kept steps of kind read in the same segment. base
	// and position are the segment and the position of the last kept step.
	stride         int64
	base, position int64
	segmentsLeft   int // number of further segments that the steps may contain
	omitted        int
}

func newRecorder(began time.Time) *Recorder {
	return &Recorder{began: began, stride: readStride, base: math.MinInt64,
		segmentsLeft: report.StepSegmentsMax}
}

// add adds a step that was taken at moment, and returns the step in the form that reports contain.
// One place remains free for the step of kind end.
func (r *Recorder) add(step clean.Step, moment time.Time) report.Step {
	converted := r.convert(step, moment)
	if step.Kind == clean.StepRead && step.Base == r.base &&
		step.Position-r.position < r.stride {
		r.omitted++
		return converted
	}
	if len(r.steps) >= report.PassStepsMax-1 {
		r.thin()
	}
	if len(r.steps) >= report.PassStepsMax-1 {
		r.omitted++
		return converted
	}
	if step.Kind == clean.StepRead {
		r.base, r.position = step.Base, step.Position
	}
	kept := converted
	kept.Segments, kept.OmittedSegments = r.keepSegments(converted.Segments)
	r.steps = append(r.steps, kept)
	return kept
}

// end adds the step of kind end.
func (r *Recorder) end(moment time.Time) report.Step {
	step := report.Step{After: r.after(moment), Kind: report.StepEnd}
	r.steps = append(r.steps, step)
	return step
}

// after returns the time since the pass began, in seconds; 0 if the clock was set back.
func (r *Recorder) after(moment time.Time) float64 { return max(0, moment.Sub(r.began).Seconds()) }

// thin removes every second step of kind read, and doubles the stride.
func (r *Recorder) thin() {
	kept, reads := r.steps[:0], 0
	for _, step := range r.steps {
		if step.Kind == report.StepRead {
			if reads++; reads%2 == 1 {
				r.omitted++
				continue
			}
		}
		kept = append(kept, step)
	}
	clear(r.steps[len(kept):]) // frees the memory that the removed steps refer to
	r.steps, r.stride = kept, 2*r.stride
}

// keepSegments returns the segments of a step that are kept, and the number of omitted segments. If
// a window has too many segments, only the chosen segments are kept.
func (r *Recorder) keepSegments(all []report.StepSegment) (kept []report.StepSegment,
	omitted int) {
	kept = all
	if len(all) > r.segmentsLeft {
		kept = nil
		some := slices.ContainsFunc(all, func(s report.StepSegment) bool { return s.Chosen })
		for _, s := range all {
			if (s.Chosen || !some) && len(kept) < r.segmentsLeft {
				kept = append(kept, s)
			}
		}
	}
	r.segmentsLeft -= len(kept)
	return kept, len(all) - len(kept)
}

var kinds = map[clean.StepKind]string{
	clean.StepAnnounce: report.StepAnnounce, clean.StepGroup: report.StepGroup,
	clean.StepRead: report.StepRead, clean.StepReplace: report.StepReplace,
}

// convert returns a step in the form that reports contain, with all its segments.
func (r *Recorder) convert(step clean.Step, moment time.Time) report.Step {
	out := report.Step{After: r.after(moment), Kind: kinds[step.Kind]}
	switch step.Kind {
	case clean.StepRead:
		out.Base, out.Position = &step.Base, step.Position
	case clean.StepGroup, clean.StepReplace:
		out.From, out.To = &step.From, &step.To
	}
	for _, s := range step.Segments {
		out.Segments = append(out.Segments, report.StepSegment{Base: s.Base, Bytes: s.SizeBytes,
			GarbageBytes: s.DeadBytes, Chosen: s.Chosen, Forced: s.Forced})
	}
	return out
}
