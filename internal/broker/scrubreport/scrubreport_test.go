package scrubreport

import (
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/scrub"
)

var now = time.UnixMilli(1_700_000_000_000).UTC()

func target(topic string, partition int32, base int64) scrub.Target {
	return scrub.Target{Topic: topic, Partition: partition, Base: base}
}

func damaged(t scrub.Target, found time.Time, files ...string) scrub.Damaged {
	d := scrub.Damaged{Target: t, Found: found}
	for _, file := range files {
		d.Places = append(d.Places, inspect.Damage{File: "/data/" + file, Position: 7,
			Problem: strings.Repeat("x", 300)})
	}
	return d
}

// status returns the status of a scrub in its second round, with damage in a topic and in the data
// directory.
func status() scrub.Status {
	last := target("a", 0, 7)
	mended := damaged(target("b", 1, 30), now.Add(-time.Hour), "b-1/30.index")
	mended.Repaired = now
	return scrub.Status{Configured: true, Settings: scrub.Settings{Interval: time.Hour, BytesRate: 5},
		State: scrub.State{Began: now, CheckedSince: now.Add(-time.Hour), Ended: now.Add(-time.Minute),
			Last: &last, Bytes: 99, Repaired: []scrub.Damaged{mended},
			Damaged: []scrub.Damaged{
				damaged(target("", 0, -1), now.Add(-time.Minute), "cleaner-history"),
				damaged(last, now.Add(-time.Minute), "a-0/7.log", "a-0/7.log", "a-0/7.index")},
			Requests:  []scrub.Request{{Topic: "a", Asked: 3, Running: 3}},
			Annotated: &scrub.Annotated{Topic: "a", Value: "a=monday", Ticket: 3}},
		Targets: []scrub.Target{target("", 0, -1), target("a", 0, -1), last, target("b", 1, 30)}}
}

func TestRowDescribesTheRound(t *testing.T) {
	row := Row(4, "/data", status())
	if row.Broker != 4 || row.State != report.ScrubRunning {
		t.Errorf("broker %d is %s, want 4 to be running", row.Broker, row.State)
	}
	if row.CheckedSegments != 3 || row.Segments != 4 {
		t.Errorf("%d of %d segments, want 3 of 4", row.CheckedSegments, row.Segments)
	}
	if row.CheckedBytes != 99 || row.Next != nil {
		t.Errorf("%+v, want 99 bytes and no next round", row)
	}
	if len(row.Damage) != 4 {
		t.Fatalf("damage %+v, want 4 files", row.Damage)
	}
	if len(row.Repaired) != 1 || row.Repaired[0].Repaired == nil {
		t.Errorf("repaired %+v, want one file with its time", row.Repaired)
	}
	if d := row.Damage[1]; d.File != "a-0/7.log" || d.Topic != "a" || d.Repaired != nil {
		t.Errorf("%+v", d)
	}
	if r := row.Requests[0]; !r.Running || r.Asked != 3 || r.Segments != 2 {
		t.Errorf("%+v", r)
	}
	waiting := status()
	waiting.Complete = true
	row = Row(4, "/data", waiting)
	if row.State != report.ScrubWaiting || row.Next == nil || row.CheckedSegments != 4 {
		t.Errorf("%+v", row)
	}
	row = Row(4, "/data", scrub.Status{})
	if row.State != report.ScrubOff || row.CheckedSince != nil || row.Damage == nil {
		t.Errorf("%+v", row)
	}
}

// TestStatusListsEachFileOnce checks that the findings are sorted by the time of their last change,
// with one finding for each file.
func TestStatusListsEachFileOnce(t *testing.T) {
	got := Status("/data", status())
	if got.State != v1alpha1.ScrubStateRunning || got.Damaged != 2 {
		t.Errorf("%s with %d damaged, want running with 2", got.State, got.Damaged)
	}
	if got.CheckedPercent != 70 {
		t.Errorf("checked %d %%, want 70", got.CheckedPercent)
	}
	if got.Requested != "a=monday" || got.RequestState != v1alpha1.ScrubRequestRunning {
		t.Errorf("request %s is %s, want a=monday to be running", got.Requested, got.RequestState)
	}
	want := []string{"a-0/7.index", "a-0/7.log", "cleaner-history", "b-1/30.index"}
	if len(got.Findings) != len(want) {
		t.Fatalf("%+v", got.Findings)
	}
	for i, f := range got.Findings {
		if f.File != want[i] || len(f.Problem) > v1alpha1.ScrubProblemMax ||
			(f.RepairedTime != nil) != (f.File == "b-1/30.index") {
			t.Errorf("finding %d: %+v", i, f)
		}
	}
	if f := got.Findings[2]; f.Partition != "" {
		t.Errorf("partition of a file of the data directory: %+v", f)
	}
	many := status()
	for i := range int64(20) {
		many.Damaged = append(many.Damaged, damaged(target("c", 0, i), now, time.Duration(i).String()))
	}
	if got := Status("/data", many); len(got.Findings) != v1alpha1.ScrubFindingsMax {
		t.Errorf("%d findings", len(got.Findings))
	}
}

func TestRequestStates(t *testing.T) {
	for want, request := range map[string]scrub.Request{
		v1alpha1.ScrubRequestPending: {Topic: "a", Asked: 3, Running: 2, Served: 1},
		v1alpha1.ScrubRequestRunning: {Topic: "a", Asked: 5, Running: 3},
		v1alpha1.ScrubRequestDone:    {Topic: "a", Asked: 5, Served: 4},
	} {
		s := status()
		s.Requests = []scrub.Request{{Topic: "", Asked: 9}, request}
		if got := Status("/data", s); got.RequestState != want {
			t.Errorf("%+v: %s, want %s", request, got.RequestState, want)
		}
	}
	s := status()
	s.Requests = nil // the broker no longer has a replica of the topic
	if got := Status("/data", s); got.RequestState != v1alpha1.ScrubRequestDone {
		t.Errorf("%+v", got)
	}
}
