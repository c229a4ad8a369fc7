package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
	"heartwood.dev/heartwood/internal/remote"
)

// mapFrame is a topic's cleaner map at one moment. templates/map.html renders it, and the stream of
// updates sends it as JSON to web/map.ts.
type mapFrame struct {
	Cards   []card   `json:"cards"`
	Rows    []mapRow `json:"rows"`
	Missing string   `json:"missing"` // brokers that did not respond; "" if all did
}

// mapRow is the row of one replica.
type mapRow struct {
	ID     string     `json:"id"` // partition, and the broker of a follower: "3" or "3@1"
	Name   string     `json:"name"`
	Facts  []string   `json:"facts"`
	Label  string     `json:"label"` // label of the row, for screen readers
	Head   string     `json:"head"`
	Rest   string     `json:"rest"`
	Detail string     `json:"detail"`
	Tone   string     `json:"tone"`
	Bar    bool       `json:"bar"`
	Ratio  float64    `json:"ratio"`
	Pass   int64      `json:"pass"` // ID of the running pass; 0 without one
	Blocks []mapBlock `json:"blocks"`
	Open   *openBlock `json:"open"` // null if no block is unfolded

	Follower bool   `json:"follower"`
	Broker   int32  `json:"broker"`
	Replica  string `json:"replica"` // in the format of the parameter open
}

// mapBlock is one block in a row. The JSON names are short, because a frame contains up to 1,500
// blocks.
type mapBlock struct {
	Key     string  `json:"k"` // base offset, unique in its row
	X       float64 `json:"x"` // percent of the width of the map
	Width   float64 `json:"w"`
	Class   string  `json:"c"`
	Garbage float64 `json:"g"` // share of the block's height
	Read    float64 `json:"r"` // share of the block's width
	Title   string  `json:"t"`
	Label   string  `json:"l"` // below the block
	Link    string  `json:"h"` // relative URL of the details
}

// frameOf computes the frame for a view. It contains one row for each leader or, if a partition has
// no leader, for the preferred leader. If the view shows followers, their rows follow the row of
// the leader.
func frameOf(shown *mapView, answers *remote.Answers, logs map[replicaID]*cleanermap.Log,
	now time.Time) *mapFrame {
	frame := &mapFrame{}
	var pieces [][]cleanermap.Piece
	var ids []replicaID // replicas that have a row
	open := map[int]cleanermap.Span{}
	counted := int64(0) // garbage in the leaders' blocks
	for i := range answers.Placement.Partitions {
		p := &answers.Placement.Partitions[i]
		brokers := slices.Clone(p.Replicas)
		slices.SortStableFunc(brokers, func(a, b int32) int {
			return cmp.Compare(order(a == p.Leader), order(b == p.Leader))
		})
		for index, broker := range brokers {
			if index > 0 && !shown.followers {
				break
			}
			id := replicaID{p.Partition, broker}
			row, nextPieces := rowOf(shown.topic, p, broker, logs[id],
				reportOf(answers, p.Partition, broker))
			if span, found := shown.open[id]; found {
				open[len(ids)] = span
			}
			ids, row.Replica = append(ids, id), id.text()
			if row.Follower = index > 0; row.Follower {
				row.ID += "@" + strconv.Itoa(int(broker))
			} else {
				counted += garbageOf(nextPieces)
			}
			frame.Rows = append(frame.Rows, row)
			pieces = append(pieces, nextPieces)
		}
	}
	for i, blocks := range cleanermap.Blocks(pieces, open) {
		row := &frame.Rows[i]
		row.draw(shown.topic, blocks)
		if row.Open != nil {
			folded := shown.without(ids[i])
			row.Open.Link = folded.url("map")
		}
	}
	frame.Cards = mapCards(answers, counted, now)
	return frame
}

func order(first bool) int {
	if first {
		return 0
	}
	return 1
}

func reportOf(answers *remote.Answers, partition, broker int32) *report.Partition {
	for i := range answers.Partitions {
		if p := &answers.Partitions[i]; p.Partition == partition && p.Broker == broker {
			return p
		}
	}
	return nil
}

func rowOf(topic string, p *report.PlacedPartition, broker int32, log *cleanermap.Log,
	partition *report.Partition) (mapRow, []cleanermap.Piece) {
	id := strconv.Itoa(int(p.Partition))
	row := mapRow{ID: id, Name: topic + "-" + id, Broker: broker, Blocks: []mapBlock{}}
	role := "follows"
	if broker == p.Leader {
		role = "leads"
	} else if !slices.Contains(p.InSyncReplicas, broker) {
		role = "is not in sync"
	}
	row.Facts = []string{fmt.Sprintf("broker %d %s", broker, role)}
	if partition == nil {
		row.Head, row.Tone = "No report", "bad"
		row.Rest = ": broker " + strconv.Itoa(int(broker)) + " does not respond"
	} else {
		s := statusOf(partition.Compaction)
		row.Head, row.Rest, row.Detail, row.Tone = s.Head, s.Rest, s.Detail, s.Tone
		row.Bar, row.Ratio = s.Bar, math.Round(s.Ratio*1000)/1000
		row.Facts = append(row.Facts, formatBytes(partition.SizeBytes)+", "+
			plural(partition.Segments, "segment"))
	}
	row.Label = "Segments of " + row.Name + " on broker " + strconv.Itoa(int(broker))
	if log == nil {
		return row, nil
	}
	if log.Pass != nil {
		row.Pass = log.Pass.ID
	}
	return row, log.Pieces()
}

// thinWidth is the width below which a block has thin outlines, in percent of the map's width.
// Normal outlines would cover such a block.
const thinWidth = 0.8

// draw sets the blocks of a row.
func (row *mapRow) draw(topic string, blocks []cleanermap.Block) {
	for i := range blocks {
		row.Blocks = append(row.Blocks, blockOf(topic, row, &blocks[i]))
	}
	row.Open = openOf(blocks)
	labelBlocks(blocks, row.Blocks, row.Open)
}

// blockOf returns the description of a block, without its label.
func blockOf(topic string, row *mapRow, b *cleanermap.Block) mapBlock {
	shown := mapBlock{Key: strconv.FormatInt(b.Base, 10), X: round3(b.X), Width: round3(b.Width),
		Class: classOf(&b.Piece, b.Segments), Title: titleOf(row, b)}
	if b.Open {
		shown.Class += " open"
	}
	if b.Width < thinWidth {
		shown.Class += " thin"
	}
	if b.Bytes > 0 {
		shown.Garbage = round3(float64(b.Garbage) / float64(b.Bytes))
		shown.Read = round3(float64(b.Read) / float64(b.Bytes))
	}
	partition, _, _ := strings.Cut(row.ID, "@")
	shown.Link = query("segment", "topic", topic, "partition", partition, "broker", row.Broker,
		"base", b.Base, "last", b.Last)
	return shown
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// classOf returns a block's CSS classes.
func classOf(p *cleanermap.Piece, segments int) string {
	classes := []string{p.State}
	for _, mark := range []struct {
		set  bool
		name string
	}{{p.Chosen, "chosen"}, {p.Forced, "forced"}, {p.Current, "current"}, {p.Written, "written"},
		{segments > 1, "folded"}} {
		if mark.set {
			classes = append(classes, mark.name)
		}
	}
	return strings.Join(classes, " ")
}

// titleOf returns a one-line description of a block.
func titleOf(row *mapRow, b *cleanermap.Block) string {
	text := "Segment " + strconv.FormatInt(b.Base, 10)
	if b.Segments > 1 {
		text = plural(b.Segments, "segment") + " from " + strconv.FormatInt(b.Base, 10)
	}
	text += " of " + row.Name + ": " + b.State + ", " + formatBytes(b.Bytes)
	if b.Garbage > 0 && b.Bytes > 0 {
		text += ", " + formatPercent(float64(b.Garbage)/float64(b.Bytes)) + " garbage"
	}
	switch {
	case b.Written:
		text += ", rewritten by this pass"
	case b.Current && b.Read > 0 && b.Bytes > 0:
		text += ", being rewritten, " + formatPercent(float64(b.Read)/float64(b.Bytes)) + " read"
	case b.Current:
		text += ", being rewritten"
	case b.Chosen:
		text += ", this pass rewrites it"
	}
	return text
}

// missingText returns a text with the names of the brokers that have not responded.
func missingText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	which := "these brokers know"
	if len(names) == 1 {
		which = "this broker knows"
	}
	return strings.Join(names, ", ") + ": no response. This page lacks what only " + which + "."
}

func garbageOf(pieces []cleanermap.Piece) (sum int64) {
	for i := range pieces {
		sum += pieces[i].Garbage
	}
	return sum
}

// mapCards returns cards with the sums over the leaders' logs. counted is the garbage in the
// blocks. It differs from the reported garbage while passes run, because brokers report only the
// garbage counted by completed passes.
func mapCards(answers *remote.Answers, counted int64, now time.Time) []card {
	rows := topicsOf(*answers, now)
	if len(rows) == 0 {
		return []card{}
	}
	row := rows[0]
	build := func(n int64) string {
		if total := row.Sections.Total(); total > 0 {
			return formatBytes(n) + ", " + formatPercent(float64(n)/float64(total))
		}
		return formatBytes(n)
	}
	garbage := card{Name: "Garbage still to go", Value: none}
	switch {
	case counted > row.Garbage:
		garbage.Value = build(counted)
		if !row.GarbageExact {
			garbage.Note = "counted so far"
		}
	case row.GarbageKnown:
		garbage.Value = build(row.Garbage)
		if !row.GarbageExact {
			garbage.Note = "estimated"
		}
	}
	passes := card{Name: "Passes running", Value: formatCount(row.Running)}
	if row.Running > 0 {
		passes.Tone, passes.Note = "run", "on all replicas"
	}
	return []card{{Name: "Size of the leaders' logs", Value: formatBytes(row.Bytes)},
		{Name: "Dirty", Value: build(row.Sections.Dirty)}, garbage, passes}
}
