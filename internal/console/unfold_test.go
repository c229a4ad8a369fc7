package console

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
)

// manySegments returns a log of n clean segments on broker 0.
func manySegments(n int) *cleanermap.Log {
	log := &cleanermap.Log{Of: report.SegmentsOf{Topic: "customers", Leader: true, Total: n}}
	for i := range int64(n) {
		log.Segments = append(log.Segments, report.Segment{Base: i * 10, LastOffset: i*10 + 9,
			Bytes: 1 << 20, State: report.SegmentClean})
	}
	return log
}

// TestFoldedBlockUnfoldsInItsRow checks the frame for a view with an unfolded block. It must
// contain the segments of the block, and a link to the view in which the block is folded. The other
// replica and the other partition must not change.
func TestFoldedBlockUnfoldsInItsRow(t *testing.T) {
	answers := goldenAnswers()
	answers.Placement.Partitions = answers.Placement.Partitions[:2]
	logs := map[replicaID]*cleanermap.Log{{0, 0}: manySegments(10_000), {1, 0}: manySegments(500)}
	shown := mapView{topic: "customers"}
	before := frameOf(&shown, &answers, logs, goldenNow)
	folded := before.Rows[0].Blocks[7]
	link, err := url.Parse(folded.Link)
	if err != nil || !strings.Contains(folded.Class, "folded") || before.Rows[0].Open != nil {
		t.Fatalf("got %+v, %v", folded, err)
	}
	open := fmt.Sprintf("0@0:%s-%s", link.Query().Get("base"), link.Query().Get("last"))
	shown = parseMapView(url.Values{"topic": {"customers"}, "open": {open, "1@0:70-20", "1@7:0-90"}})
	after := frameOf(&shown, &answers, logs, goldenNow)
	row := &after.Rows[0]
	found := 0
	for i := range row.Blocks {
		if b := &row.Blocks[i]; strings.Contains(b.Class, "open") {
			found++
			if b.Link != query("segment", "topic", "customers", "partition", "0", "broker", 0, "base",
				b.Key, "last", mustAdd(t, b.Key, 9)) || strings.Contains(b.Class, "folded") {
				t.Errorf("got %+v", b)
			}
		}
	}
	if found != 64 || row.Open == nil {
		t.Fatalf("got %d segments and %+v, want 64 in an open block", found, row.Open)
	}
	if row.Open.From != folded.Key {
		t.Errorf("the open block begins at %s, want %s", row.Open.From, folded.Key)
	}
	if want := "64 segments, enlarged: fold"; row.Open.Label != want {
		t.Errorf("got label %q, want %q", row.Open.Label, want)
	}
	fold := "map?open=1%400%3A70-20&open=1%407%3A0-90&topic=customers"
	if row.Open.Link != fold {
		t.Errorf("got link %s, want %s", row.Open.Link, fold)
	}
	if !reflect.DeepEqual(after.Rows[1], before.Rows[1]) {
		t.Error("another partition has changed")
	}
}

// mustAdd parses a number and returns number + n as text.
func mustAdd(t *testing.T, number string, n int) string {
	t.Helper()
	index := 0
	if _, err := fmt.Sscan(number, &index); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(index + n)
}

// TestViewIsInTheURL checks that a view's URL is parsed to the same view, and that other parameters
// are ignored.
func TestViewIsInTheURL(t *testing.T) {
	q := url.Values{"topic": {"a&b"}, "replicas": {"1"}, "open": {"3@1:5-90", "", "3@1", "x@1:2-3",
		"1@2:3-4-5", "1@-2:3-4", "1@2:-3-4", "99999999999@1:2-3", "0@0:9223372036854775807-0"}}
	shown := parseMapView(q)
	if len(shown.open) != 2 || shown.open[replicaID{3, 1}] != (cleanermap.Span{From: 5, To: 90}) {
		t.Errorf("got %+v", shown)
	}
	link, err := url.Parse(shown.url("map"))
	if again := parseMapView(link.Query()); err != nil || !reflect.DeepEqual(again, shown) {
		t.Errorf("the URL %s leads to %+v", link, again)
	}
	many := url.Values{"topic": {"a"}}
	for i := range 50 {
		many.Add("open", fmt.Sprintf("%d@0:0-9", i))
	}
	if shown := parseMapView(many); len(shown.open) != openMax {
		t.Errorf("%d blocks are unfolded, want %d", len(shown.open), openMax)
	}
}

// TestSpeedOfPasses checks that the speed of a running pass is shown, and how long it has waited.
func TestSpeedOfPasses(t *testing.T) {
	running := goldenRunning()
	if got := runningStatus(running).Detail; got !=
		"2.5 MiB/s, throttled for 42 s; read 0 B, wrote 0 B, freed 0 B" {
		t.Errorf("got %q", got)
	}
	running.RunningPass.BytesPerSecond, running.RunningPass.ThrottledSeconds = nil, 0
	if got := runningStatus(running).Detail; got != "read 0 B, wrote 0 B, freed 0 B" {
		t.Errorf("got %q", got)
	}
	ended := &report.Pass{Began: 10, Ended: new(14.0), ReadBytes: 4 << 20,
		SidecarWrittenBytes: 4 << 20}
	want := []fact{{"read and written per second", "2 MiB on average"}, {"throttled", "not at all"}}
	if got := speedOf(ended); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
