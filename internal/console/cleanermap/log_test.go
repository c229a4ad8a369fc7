package cleanermap

import (
	"fmt"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
)

func segments(bases ...int64) (rows []report.Segment) {
	for _, base := range bases {
		rows = append(rows, report.Segment{Base: base, LastOffset: base + 9, Bytes: 100,
			State: report.SegmentClean, GarbageBytes: new(int64(10))})
	}
	return rows
}

// text describes the pieces of a log. Each piece is its base offset, followed by c if it is chosen,
// by > and the bytes read if it is being rewritten, or by w if it was written.
func (l *Log) text() string {
	var words []string
	for _, p := range l.Pieces() {
		word := fmt.Sprint(p.Base)
		if p.Chosen {
			word += "c"
		}
		if p.Current {
			word += fmt.Sprintf(">%d", p.Read)
		}
		if p.Written {
			word += "w"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func announce(bases ...int64) report.Step {
	step := report.Step{Kind: report.StepAnnounce}
	for i, base := range bases {
		step.Segments = append(step.Segments, report.StepSegment{Base: base, Bytes: 100,
			GarbageBytes: 60, Chosen: i > 0})
	}
	return step
}

// TestLogFollowsEvents applies the events of a pass that rewrites two of three segments.
func TestLogFollowsEvents(t *testing.T) {
	var log Log
	step := func(s report.Step) func() {
		return func() { log.ApplyStep(&report.StepEvent{Pass: 7, Step: s}) }
	}
	event := func(e report.SegmentsEvent) func() { return func() { log.ApplySegments(&e) } }
	pass := func(id int64, result string, steps ...report.Step) func() {
		return func() {
			log.ApplyPass(&report.PartitionPass{ID: id, Pass: report.Pass{Result: result}, Steps: steps})
		}
	}
	for i, test := range []struct {
		do   func()
		want string
	}{
		{event(report.SegmentsEvent{Whole: true, Segments: segments(0, 20, 10)}), "0 10 20"},
		{event(report.SegmentsEvent{Segments: segments(30), Removed: []int64{99}}), "0 10 20 30"},
		{pass(7, "", announce(0, 10, 20)), "0 10c 20c 30"},
		{step(report.Step{Kind: report.StepGroup, From: new(int64(10)), To: new(int64(30))}),
			"0 10c>0 20c>0 30"},
		{step(report.Step{Kind: report.StepRead, Base: new(int64(10)), Position: 50}),
			"0 10c>50 20c>0 30"},
		{step(report.Step{Kind: report.StepRead, Base: new(int64(10)), Position: 500}),
			"0 10c>100 20c>0 30"},
		{step(report.Step{Kind: report.StepReplace, From: new(int64(10)), To: new(int64(30)),
			Segments: []report.StepSegment{{Base: 10, Bytes: 80}}}), "0 10w 20 30"},
		{event(report.SegmentsEvent{Segments: segments(10), Removed: []int64{20}}), "0 10w 30"},
		{pass(6, "success"), "0 10w 30"}, // an earlier pass
		{pass(7, "success"), "0 10 30"},
		{step(report.Step{Kind: report.StepEnd}), "0 10 30"},
		{event(report.SegmentsEvent{Whole: true, Segments: segments(40)}), "40"},
		{event(report.SegmentsEvent{Gone: true}), ""},
	} {
		test.do()
		if got := log.text(); got != test.want {
			t.Fatalf("event %d: got %q, want %q", i, got, test.want)
		}
	}
}

// TestGarbageOfTheRunningPassIsNewer checks that the map shows the garbage that the running pass
// has counted. The report of the segment contains an older value, from the end of the previous
// pass.
func TestGarbageOfTheRunningPassIsNewer(t *testing.T) {
	log := Log{Segments: segments(0)}
	if got := log.Pieces()[0].Garbage; got != 10 {
		t.Errorf("got %d, want 10", got)
	}
	log.ApplyPass(&report.PartitionPass{ID: 1, Steps: []report.Step{announce(0)}})
	if got := log.Pieces()[0]; got.Garbage != 60 || !got.Known {
		t.Errorf("got %+v, want 60 bytes of garbage", got)
	}
}

// TestReplayEndsWithTheNewSegments checks that the last frame of a replay contains the segments
// that the pass has kept and those that it has written, and that the freed bytes are the difference
// to the first frame.
func TestReplayEndsWithTheNewSegments(t *testing.T) {
	pass := &report.PartitionPass{Steps: []report.Step{announce(0, 10, 20),
		{Kind: report.StepGroup, From: new(int64(10)), To: new(int64(30))},
		{Kind: report.StepRead, Base: new(int64(10)), Position: 100},
		{Kind: report.StepRead, Base: new(int64(20)), Position: 50},
		{Kind: report.StepReplace, From: new(int64(10)), To: new(int64(30)),
			Segments: []report.StepSegment{{Base: 10, Bytes: 80}}},
		{Kind: report.StepEnd}}}
	frames := Replay(pass)
	if len(frames) != len(pass.Steps) {
		t.Fatalf("got %d frames of %d steps", len(frames), len(pass.Steps))
	}
	if p := frames[3].Pieces; p[1].Read != 100 || p[2].Read != 50 || !p[1].Current || p[0].Current {
		t.Errorf("while the second segment is read: got %+v", p)
	}
	last := frames[len(frames)-1]
	if len(last.Pieces) != 2 || last.Freed != 120 || !last.Pieces[1].Written ||
		last.Pieces[0].Chosen {
		t.Errorf("got %+v", last)
	}
	if frames[0].Pieces[1].Read != 0 || !frames[0].Pieces[1].Chosen {
		t.Errorf("later steps changed the first frame: %+v", frames[0])
	}
}

// TestLongPassesAreThinned checks that a long replay omits only steps of kind read.
func TestLongPassesAreThinned(t *testing.T) {
	pass := &report.PartitionPass{Steps: []report.Step{announce(0, 10)}}
	for i := range 1000 {
		kind := report.StepRead
		if i%100 == 0 {
			kind = report.StepGroup
		}
		pass.Steps = append(pass.Steps, report.Step{Kind: kind, Base: new(int64(0)),
			Position: int64(i), From: new(int64(0)), To: new(int64(20))})
	}
	count := map[string]int{}
	frames := Replay(pass)
	for i := range frames {
		count[frames[i].Kind]++
	}
	if len(frames) > FramesMax || count[report.StepGroup] != 10 || count[report.StepAnnounce] != 1 ||
		count[report.StepRead] < FramesMax/2 {
		t.Errorf("got %d frames: %v", len(frames), count)
	}
	if got := Replay(&report.PartitionPass{}); len(got) != 0 {
		t.Errorf("a pass without steps has %d frames", len(got))
	}
}
