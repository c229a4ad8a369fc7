package console

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/internal/console/cleanermap"
)

// openMax is the maximum number of unfolded blocks on a page.
const openMax = 8

// mapView describes which part of a topic's map a page shows. The view is encoded in the URL, so
// other users can open it with a link.
type mapView struct {
	topic     string
	followers bool
	open      map[replicaID]cleanermap.Span // at most openMax
}

// parseMapView parses the query of the map and of its stream. A parameter open has the format
// PARTITION@BROKER:FROM-TO. Parameters with another format are ignored, and so are those in excess
// of openMax.
func parseMapView(q url.Values) mapView {
	v := mapView{topic: q.Get("topic"), followers: q.Get("replicas") != "",
		open: map[replicaID]cleanermap.Span{}}
	for _, text := range q["open"] {
		if id, span, ok := parseOpen(text); ok && len(v.open) < openMax {
			v.open[id] = span
		}
	}
	return v
}

func parseOpen(text string) (id replicaID, span cleanermap.Span, ok bool) {
	replica, offsets, _ := strings.Cut(text, ":")
	partition, broker, _ := strings.Cut(replica, "@")
	from, to, _ := strings.Cut(offsets, "-")
	var numbers [4]int64
	for i, number := range []string{partition, broker, from, to} {
		bits := 64
		if i < 2 {
			bits = 32
		}
		n, err := strconv.ParseInt(number, 10, bits)
		if err != nil || n < 0 {
			return id, span, false
		}
		numbers[i] = n
	}
	return replicaID{int32(numbers[0]), int32(numbers[1])},
		cleanermap.Span{From: numbers[2], To: numbers[3]}, true
}

// url returns the relative URL of a page or stream (to) with this view.
func (v *mapView) url(to string) string {
	pairs := []any{"topic", v.topic}
	if v.followers {
		pairs = append(pairs, "replicas", "1")
	}
	var open []string
	for id, span := range v.open {
		open = append(open, openText(id, span))
	}
	slices.Sort(open)
	for _, text := range open {
		pairs = append(pairs, "open", text)
	}
	return query(to, pairs...)
}

func openText(id replicaID, span cleanermap.Span) string {
	return id.text() + ":" + strconv.FormatInt(span.From, 10) + "-" + strconv.FormatInt(span.To, 10)
}

// text returns the replica in the format of the parameter open.
func (id replicaID) text() string {
	return strconv.Itoa(int(id.partition)) + "@" + strconv.Itoa(int(id.broker))
}

// without returns a copy of the view in which the replica has no unfolded block.
func (v mapView) without(id replicaID) mapView {
	open := map[replicaID]cleanermap.Span{}
	for other, span := range v.open {
		if other != id {
			open[other] = span
		}
	}
	v.open = open
	return v
}

// openBlock is the bracket below the segments of an unfolded block. A click on it folds the block
// again.
type openBlock struct {
	From  string  `json:"k"` // base offset of its first segment
	X     float64 `json:"x"` // percent of the width of the map
	Width float64 `json:"w"`
	At    float64 `json:"m"` // middle of the label
	Label string  `json:"l"`
	Link  string  `json:"h"` // relative URL of the map without it
}

// openOf returns a row's bracket, or nil if no block in the row is unfolded.
func openOf(blocks []cleanermap.Block) *openBlock {
	first := slices.IndexFunc(blocks, func(b cleanermap.Block) bool { return b.Open })
	if first < 0 {
		return nil
	}
	unfolded := &openBlock{From: strconv.FormatInt(blocks[first].Base, 10), X: round3(blocks[first].X)}
	segments := 0
	for i := first; i < len(blocks) && blocks[i].Open; i++ {
		segments += blocks[i].Segments
		unfolded.Width = round3(blocks[i].X + blocks[i].Width - unfolded.X)
	}
	unfolded.Label = formatCount(segments) + " segments, enlarged: fold"
	half := textWidth(unfolded.Label) / 2
	unfolded.At = round3(math.Max(half, math.Min(100-half, unfolded.X+unfolded.Width/2)))
	return unfolded
}
