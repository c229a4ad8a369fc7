package passlog

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

const dir = "data"

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func open(t testing.TB, fsys vfs.FS) *Log {
	t.Helper()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	return Open(Options{FS: fsys, Dir: dir, Broker: 1})
}

// keyOf returns the key of a topic's partition 3.
func keyOf(topic string) Key {
	return Key{TopicID: fmt.Sprintf("%-22s", topic), Partition: 3}
}

// run adds a pass with n steps of kind read, and returns its id.
func run(l *Log, topic string, n int, moment time.Time) int64 {
	pass := l.Begin(topic, keyOf(topic), report.TriggerDirtyRatio, moment)
	for i := range n {
		pass.Step(clean.Step{Kind: clean.StepRead, Base: int64(i), Position: readStride},
			moment.Add(time.Duration(i)*time.Millisecond))
	}
	ended := moment.Add(time.Minute)
	pass.End(report.Pass{Trigger: report.TriggerDirtyRatio, Began: float64(moment.UnixMilli()) / 1000,
		Ended: new(float64(ended.UnixMilli()) / 1000), Result: report.ResultSuccess,
		ReclaimedBytes: int64(n)}, ended)
	return pass.ID()
}

func everything() Filter { return Filter{Partition: -1, Limit: 1000, Steps: true} }

func list(l *Log) []report.PartitionPass {
	passes, _ := l.List(everything())
	return passes
}

// TestPassesSurviveRestarts checks that passes and their steps are unchanged after a restart, and
// that later passes have higher ids, even if the clock was set back.
func TestPassesSurviveRestarts(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	for i := range 20 {
		run(l, fmt.Sprint("topic", i%3), i, start.Add(time.Duration(i)*time.Hour))
	}
	before := list(l)
	l = open(t, fsys)
	if after := list(l); !reflect.DeepEqual(after, before) || len(after) != 20 ||
		after[0].Broker != 1 || len(after[0].Steps) != 20 {
		t.Fatalf("got %+v, want %+v", after, before)
	}
	if id := run(l, "topic", 1, start.Add(-time.Hour)); id <= before[0].ID {
		t.Errorf("got id %d after %d", id, before[0].ID)
	}
	l = open(t, fsys)
	if after := list(l); len(after) != 21 || after[0].Topic != "topic" {
		t.Errorf("got %d passes, the newest of %s", len(after), after[0].Topic)
	}
}

// TestIncompleteLineIsSkipped truncates the file at every byte of its last line, and damages lines.
// The other passes remain, and later passes are written after them.
func TestIncompleteLineIsSkipped(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	for i := range 3 {
		run(l, "topic", 2, start.Add(time.Duration(i)*time.Hour))
	}
	path := filepath.Join(dir, fileName)
	whole, err := fsys.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	complete := strings.LastIndexByte(string(whole[:len(whole)-1]), '\n') + 1
	write := func(content []byte) {
		file, err := fsys.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	for size := complete; size < len(whole); size++ {
		write(whole[:size])
		l := open(t, fsys)
		if n := len(list(l)); n != 2 {
			t.Fatalf("%d of %d bytes: got %d passes", size, len(whole), n)
		}
		run(l, "later", 1, start.Add(10*time.Hour))
		if all := list(open(t, fsys)); len(all) != 3 || all[0].Topic != "later" {
			t.Fatalf("%d of %d bytes: after another pass got %+v", size, len(whole), all)
		}
	}
	write([]byte("\x00\x00\n" + string(whole) + "{\"id\":7}\nnull\n"))
	if n := len(list(open(t, fsys))); n != 3 {
		t.Errorf("with damaged lines: got %d passes", n)
	}
}

// TestFilesAreBounded checks that the total size of the two files is at most 2 MiB, and that they
// contain the newest passes.
func TestFilesAreBounded(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	for i := range 100 {
		run(l, "topic", 600, start.Add(time.Duration(i)*time.Hour))
		total := int64(0)
		for _, name := range []string{fileName, oldFileName} {
			if info, err := fsys.Stat(filepath.Join(dir, name)); err == nil {
				total += info.Size()
			}
		}
		if total > 2*fileBytesMax {
			t.Fatalf("the files have %d bytes", total)
		}
	}
	all := list(open(t, fsys))
	if len(all) < 10 || len(all) >= 100 || all[0].Began != float64(
		start.Add(99*time.Hour).Unix()) {
		t.Errorf("got %d passes, the newest of %f", len(all), all[0].Began)
	}
}

// TestMemoryIsBounded checks that the oldest passes are removed, and that older passes lose their
// steps.
func TestMemoryIsBounded(t *testing.T) {
	l := Open(Options{})
	const passes = 2 * report.PassesMax
	for i := range passes {
		run(l, "topic", 300, start.Add(time.Duration(i)*time.Hour))
	}
	all, steps, without := list(l), 0, 0
	for i, pass := range all {
		steps += len(pass.Steps)
		if pass.StepCount != len(pass.Steps) || pass.StepCount+pass.OmittedSteps != 301 {
			t.Fatalf("pass %d: %d steps, count %d, %d omitted", i, len(pass.Steps), pass.StepCount,
				pass.OmittedSteps)
		}
		if len(pass.Steps) == 0 {
			without++
		} else if without > 0 {
			t.Fatalf("pass %d has steps, and a newer one has not", i)
		}
	}
	if len(all) != report.PassesMax || steps > stepsMax || steps < stepsMax-301 {
		t.Errorf("got %d passes with %d steps", len(all), steps)
	}
}

// TestLongPassIsThinned compares the kept steps of long passes with all steps. The kept steps are a
// subsequence of all steps, include all announcements, and stay within the limits.
func TestLongPassIsThinned(t *testing.T) {
	for s := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(s, 0))
		r, moment := newRecorder(start), start
		var all []report.Step
		groups, perGroup := 1+random.IntN(600), 1+random.IntN(300)
		add := func(step clean.Step) {
			moment = moment.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
			all = append(all, r.convert(step, moment))
			r.add(step, moment)
		}
		announced := clean.Step{Kind: clean.StepAnnounce}
		for i := range random.IntN(2000) {
			announced.Segments = append(announced.Segments, clean.StepSegment{Base: int64(i),
				SizeBytes: 1, Chosen: random.IntN(3) == 0})
		}
		add(announced)
		for i := range groups {
			add(clean.Step{Kind: clean.StepGroup, From: int64(i), To: int64(i + 1)})
			for n := range perGroup {
				add(clean.Step{Kind: clean.StepRead, Base: int64(i),
					Position: int64(n+1) * readStride})
			}
			add(clean.Step{Kind: clean.StepReplace, From: int64(i), To: int64(i + 1)})
		}
		all = append(all, r.end(moment))
		next, segments := 0, 0
		for i, step := range r.steps {
			segments += len(step.Segments)
			for next < len(all) && (all[next].Kind != step.Kind || all[next].After != step.After ||
				!reflect.DeepEqual(all[next].Base, step.Base) ||
				all[next].Position != step.Position) {
				next++
			}
			if next == len(all) {
				t.Fatalf("step %d, %+v, was not taken at this place", i, step)
			}
		}
		if len(r.steps) > report.PassStepsMax || segments > report.StepSegmentsMax {
			t.Fatalf("kept %d steps with %d segments, want at most %d and %d", len(r.steps),
				segments, report.PassStepsMax, report.StepSegmentsMax)
		}
		if len(r.steps)+r.omitted != len(all) {
			t.Fatalf("kept %d and omitted %d steps, want %d", len(r.steps), r.omitted, len(all))
		}
		firstKind, lastKind := r.steps[0].Kind, r.steps[len(r.steps)-1].Kind
		if firstKind != report.StepAnnounce || lastKind != report.StepEnd {
			t.Fatalf("the first step is %v and the last %v", firstKind, lastKind)
		}
		if first := r.steps[0]; len(first.Segments)+first.OmittedSegments !=
			len(announced.Segments) {
			t.Fatalf("announced %d of %d segments, omitted %d", len(first.Segments),
				len(announced.Segments), first.OmittedSegments)
		}
		if len(all) < report.PassStepsMax && r.omitted > 0 {
			t.Fatalf("omitted %d of %d steps", r.omitted, len(all))
		}
	}
}

// TestFilter compares List with a filter that the test applies to each pass.
func TestFilter(t *testing.T) {
	l := Open(Options{Broker: 1})
	for i := range 30 {
		run(l, fmt.Sprint("topic", i%3), i%4, start.Add(time.Duration(i)*time.Hour))
	}
	running := l.Begin("topic1", keyOf("topic1"), report.TriggerRequested, start.Add(100*time.Hour))
	running.Step(clean.Step{Kind: clean.StepAnnounce}, start.Add(101*time.Hour))
	all := list(l)
	if len(all) != 31 || len(all[0].Steps) != 1 || all[0].Ended != nil {
		t.Fatalf("got %d passes, the newest %+v", len(all), all[0])
	}
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for range 200 {
		f := Filter{Partition: []int32{-1, 3, 4}[random.IntN(3)], Limit: 1 + random.IntN(10),
			Steps: true, Running: random.IntN(8) == 0}
		if random.IntN(2) == 0 {
			f.Topics = []string{fmt.Sprint("topic", random.IntN(4)), "topic0"}
		}
		if random.IntN(2) == 0 {
			f.Before = all[random.IntN(len(all))].ID
		}
		var want []report.PartitionPass
		for _, p := range all {
			if (f.Topics == nil || slices.Contains(f.Topics, p.Topic)) && f.Partition != 4 &&
				(f.Before == 0 || p.ID < f.Before) && (!f.Running || p.ID == running.ID()) {
				want = append(want, p)
			}
		}
		got, more := l.List(f)
		if more != (len(want) > f.Limit) ||
			!reflect.DeepEqual(got, want[:min(len(want), f.Limit)]) {
			t.Fatalf("%+v: got %d passes, more %t, want %d", f, len(got), more, len(want))
		}
	}
}

// TestObserverSeesEveryPassAndStep checks that an Observer receives every pass and step in order,
// and the end of a pass last.
func TestObserverSeesEveryPassAndStep(t *testing.T) {
	var seen []string
	l := Open(Options{Broker: 2, Observer: Observer{
		Pass: func(p report.PartitionPass) { seen = append(seen, fmt.Sprint("pass ", p.Result)) },
		Step: func(s report.StepEvent) {
			if s.Broker != 2 || s.Topic != "topic" || s.Partition != 3 {
				t.Errorf("got %+v", s)
			}
			seen = append(seen, s.Kind)
		},
	}})
	run(l, "topic", 2, start)
	if want := []string{"pass ", "read", "read", "end", "pass success"}; !slices.Equal(seen,
		want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

// TestFullDiskDoesNotStopPasses checks that passes on a full disk stay in memory, and are written
// once the disk has space.
func TestFullDiskDoesNotStopPasses(t *testing.T) {
	fsys := vfs.NewMem()
	l := open(t, fsys)
	run(l, "topic", 1, start)
	if err := fsys.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	run(l, "topic", 1, start.Add(time.Hour))
	if n := len(list(l)); n != 2 {
		t.Errorf("got %d passes", n)
	}
	if n := len(list(open(t, fsys))); n != 0 {
		t.Errorf("%d passes are on disk", n)
	}
}

// FuzzDecode checks that no bytes cause a panic, and that decoded passes are unchanged after they
// are written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"topic\":\"t\",\"endedTimestampSeconds\":1}\n{"))
	f.Fuzz(func(t *testing.T, content []byte) {
		passes, size, _ := decode(content)
		if size > len(content) {
			t.Fatalf("%d of %d bytes are complete lines", size, len(content))
		}
		for _, pass := range passes {
			line, err := json.Marshal(&pass)
			if err != nil {
				t.Fatal(err)
			}
			again, _, damaged := decode(append(line, '\n'))
			if damaged != 0 || len(again) != 1 {
				t.Fatalf("encoded as %s, which is not a pass", line)
			}
		}
	})
}
