package console

import (
	"net/http"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/console/cleanermap"
)

// segmentPage describes one block of the map, which is one segment or several folded segments.
type segmentPage struct {
	Topic     string
	Partition int32
	Broker    int32
	Title     string
	Facts     []fact        // facts about a single segment
	Times     []instantFact // facts about a single segment
	Rows      []segmentRow  // rows for several segments, at most segmentRowsMax
	More      int
	Unfold    string // relative URL of the map with these segments unfolded; "" for a single segment
}

type fact struct{ Name, Text string }

type instantFact struct {
	Name     string
	From, To instant
}

// segmentRow is the row of a segment in a block of several segments.
type segmentRow struct {
	report.Segment
	Garbage string
	Records string
	Link    string
}

const segmentRowsMax = 500

// segment returns the page of a block. With the parameter fragment, it is the box that the map
// shows beside the block.
func (c *Console) segment(r *http.Request) (view, error) {
	q := r.URL.Query()
	var numbers [4]int64
	for i, name := range []string{"partition", "broker", "base", "last"} {
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return view{}, badRequest("The parameter " + name + " is not a number.")
		}
		numbers[i] = n
	}
	page := segmentPage{Topic: q.Get("topic"), Partition: int32(numbers[0]),
		Broker: int32(numbers[1])}
	w, leave, err := c.watches.join(page.Topic)
	if err != nil {
		return view{}, &fault{status: http.StatusServiceUnavailable, text: err.Error()}
	}
	defer leave()
	w.await(r.Context())
	found := w.with(page.Partition, page.Broker, func(log *cleanermap.Log) {
		page.describe(log, numbers[2], numbers[3])
	})
	if !found || page.Title == "" {
		return view{}, &fault{status: http.StatusNotFound,
			text: "The segment does not exist any more: a pass has replaced it."}
	}
	return view{Template: "segment", Title: page.Title, Page: "map", Body: page}, nil
}

// describe sets the fields for the segments whose base offsets are from base to last.
func (page *segmentPage) describe(log *cleanermap.Log, base, last int64) {
	name := page.Topic + "-" + strconv.Itoa(int(page.Partition))
	pieces := log.Pieces()
	var inside []int
	for i := range log.Segments {
		if s := &log.Segments[i]; base <= s.Base && (s.Base <= last || s.Base == base) {
			inside = append(inside, i)
		}
	}
	switch {
	case len(inside) == 0:
	case len(inside) == 1:
		s := &log.Segments[inside[0]]
		page.Title = "Segment " + strconv.FormatInt(s.Base, 10) + " of " + name + ": " + s.State
		if piece := pieces[inside[0]]; piece.Garbage > 0 && s.Bytes > 0 {
			page.Title += ", " + formatPercent(float64(piece.Garbage)/float64(s.Bytes)) + " garbage"
		}
		page.Facts = factsOf(s, &pieces[inside[0]])
		page.Times = timesOf(s)
	default:
		page.Title = plural(len(inside), "segment") + " of " + name
		shown := mapView{topic: page.Topic, followers: !log.Of.Leader,
			open: map[replicaID]cleanermap.Span{{page.Partition, page.Broker}: {From: base, To: last}}}
		page.Unfold = shown.url("map")
		if page.More = len(inside) - segmentRowsMax; page.More > 0 {
			inside = inside[:segmentRowsMax]
		}
		for _, i := range inside {
			page.Rows = append(page.Rows, page.row(&log.Segments[i]))
		}
	}
}

func (page *segmentPage) row(s *report.Segment) segmentRow {
	row := segmentRow{Segment: *s, Garbage: none, Records: none,
		Link: query("segment", "topic", page.Topic, "partition", page.Partition, "broker",
			page.Broker, "base", s.Base, "last", s.Base)}
	if s.GarbageBytes != nil {
		row.Garbage = formatBytes(*s.GarbageBytes)
	}
	if s.Records != nil {
		row.Records = formatCount(*s.Records)
	}
	return row
}

// factsOf describes a segment.
func factsOf(s *report.Segment, piece *cleanermap.Piece) []fact {
	facts := []fact{{"offsets", formatCount(s.Base) + " to " + formatCount(s.LastOffset)}}
	if s.LastOffset < s.Base {
		facts[0].Text = "none yet, from " + formatCount(s.Base)
	}
	if s.Records != nil {
		text := formatCount(*s.Records)
		if s.GarbageRecords != nil {
			text += ", of which " + formatCount(*s.GarbageRecords) + " are garbage"
		}
		facts = append(facts, fact{"records", text})
	}
	disk := formatBytes(s.Bytes)
	if s.Codec != "" {
		disk += ", " + s.Codec
	}
	if piece.Garbage > 0 {
		disk += "; a rewrite frees " + formatBytes(piece.Garbage)
	}
	facts = append(facts, fact{"on disk", disk})
	if s.BlockedBy != "" {
		facts = append(facts, fact{"blocked", blockedText(s.BlockedBy)})
	}
	if s.State == report.SegmentDirty {
		facts = append(facts, fact{"dirty", "no pass has compared its keys with older records yet"})
	}
	if s.Tombstones != nil && *s.Tombstones > 0 {
		facts = append(facts, fact{"tombstones", tombstonesText(*s.Tombstones, s.Clocks)})
	}
	if text := passText(s, piece); text != "" {
		facts = append(facts, fact{"this pass", text})
	}
	return facts
}

// blockedText returns a text for the value of report.Segment.BlockedBy.
func blockedText(by string) string {
	if text, known := summary.ExplainSegment(by); known {
		return text
	}
	return strings.ReplaceAll(by, "_", " ")
}

// tombstonesText describes the number of tombstones in a segment, and what their removal waits for.
func tombstonesText(count int64, clocks []report.TombstoneClock) string {
	text := formatCount(count)
	waits := map[string]int64{}
	running := int64(0)
	for i := range clocks {
		waits[clocks[i].WaitsFor] += clocks[i].Count
		running += clocks[i].Count
	}
	var parts []string
	for _, row := range []struct{ key, text string }{
		{report.WaitsForPass, "may be removed by the next pass"},
		{report.WaitsForRetention, "wait for their retention"},
		{report.WaitsForReplicas, "wait for other replicas to remove older records"},
	} {
		if n := waits[row.key]; n > 0 {
			parts = append(parts, formatCount(n)+" "+row.text)
		}
	}
	if left := count - running; left > 0 {
		parts = append(parts, formatCount(left)+" wait until older records of their keys are removed")
	}
	return text + "; " + strings.Join(parts, ", ")
}

// passText describes what the running pass does with a segment.
func passText(s *report.Segment, piece *cleanermap.Piece) string {
	switch {
	case piece.Written:
		return "has written it"
	case piece.Current && s.Bytes > 0:
		return "is rewriting it: " + formatPercent(float64(piece.Read)/float64(s.Bytes)) + " read"
	case piece.Forced:
		return "will rewrite it, because it must (maxLag, tombstones or deleted records)"
	case piece.Chosen:
		return "will rewrite it: frees " + formatBytes(piece.Garbage) + " for " +
			formatBytes(s.Bytes-piece.Garbage) + " written"
	case piece.Known:
		return "leaves it as it is: a rewrite would free too little"
	}
	return ""
}

func timesOf(s *report.Segment) []instantFact {
	var times []instantFact
	if s.Oldest != nil {
		times = append(times, instantFact{"written", at(s.Oldest), at(s.Newest)})
	}
	if s.Counted != nil {
		times = append(times, instantFact{Name: "garbage counted", From: at(s.Counted)})
	}
	for i := range s.Clocks {
		if goes := s.Clocks[i].GoesFrom; goes != nil {
			times = append(times, instantFact{Name: plural(s.Clocks[i].Count, "tombstone") +
				" may go from", From: at(goes)})
		}
	}
	return times
}
