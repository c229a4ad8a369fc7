package console

import (
	"encoding/json"
	"net/http"
	"strconv"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/cleanermap"
	"heartwood.dev/heartwood/internal/remote"
)

// replayPage is the page that replays a completed pass step by step.
type replayPage struct {
	Topic   string
	Name    string // name of the partition
	Entry   passEntry
	Frames  []replayFrame
	At      int    // index of the displayed frame
	Data    string // relative URL of all frames as JSON
	Here    string // relative URL of the page without the parameter for the step
	Stories []fact // cost and effect of the pass
}

// Prev, Next, Last and Now return values for the page's links and slider.
func (p *replayPage) Prev() int         { return max(0, p.At-1) }
func (p *replayPage) Next() int         { return min(len(p.Frames)-1, p.At+1) }
func (p *replayPage) Last() int         { return len(p.Frames) - 1 }
func (p *replayPage) Now() *replayFrame { return &p.Frames[p.At] }

// replayFrame is the log at one step of the pass.
type replayFrame struct {
	Kind   string     `json:"kind"`
	Text   string     `json:"text"`
	After  string     `json:"after"`
	Blocks []mapBlock `json:"blocks"`
	Length float64    `json:"length"` // of the row, in percent of its length before the pass
}

// replay returns the page with one step of a pass.
func (c *Console) replay(r *http.Request) (view, error) {
	page, err := c.replayOf(r)
	if err != nil {
		return view{}, err
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("step")); err == nil {
		page.At = min(max(0, n), len(page.Frames)-1)
	}
	return view{Template: "replay", Title: "Replay: " + page.Name, Page: "map", Body: page}, nil
}

// frames responds with all frames of a pass as JSON.
func (c *Console) frames(w http.ResponseWriter, r *http.Request) {
	page, err := c.replayOf(r)
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page.Frames) // fails only if the client has disconnected
}

func (c *Console) replayOf(r *http.Request) (*replayPage, error) {
	q := r.URL.Query()
	broker, err := strconv.ParseInt(q.Get("broker"), 10, 32)
	if err != nil {
		return nil, badRequest("The broker is not a number.")
	}
	id, err := strconv.ParseInt(q.Get("pass"), 10, 64)
	if err != nil || id <= 0 {
		return nil, badRequest("The pass is not a number.")
	}
	topic := q.Get("topic")
	found := c.opts.Fleet.Passes(r.Context(), remote.PassQuery{Topic: topic,
		Broker: int32(broker), ID: id})
	if len(found) == 0 {
		return nil, &fault{status: http.StatusNotFound, text: "The broker does not keep this pass " +
			"any more, or does not respond."}
	}
	pass := &found[0]
	page := &replayPage{Topic: topic, Name: topic + "-" + strconv.Itoa(int(pass.Partition)),
		Entry: entryOf(pass), Frames: framesOf(topic, pass)}
	if len(page.Frames) == 0 {
		return nil, &fault{status: http.StatusNotFound, text: "The steps of this pass were not kept."}
	}
	page.Here = query("replay", "topic", topic, "broker", broker, "pass", id)
	page.Data = query("frames", "topic", topic, "broker", broker, "pass", id)
	page.Stories = storiesOf(&pass.Pass)
	return page, nil
}

// storiesOf returns the cost and the effect of a pass.
func storiesOf(pass *report.Pass) []fact {
	return append(speedOf(pass), []fact{
		{"read", formatBytes(pass.ReadBytes + pass.SidecarReadBytes)},
		{"written", formatBytes(pass.WrittenBytes + pass.SidecarWrittenBytes)},
		{"reclaimed", formatBytes(pass.ReclaimedBytes)},
		{"records removed", formatCount(pass.RemovedRecords)},
		{"segments rewritten", formatCount(pass.RewrittenSegments)},
		{"segments left as they were", formatCount(pass.UntouchedSegments)},
	}...)
}

// framesOf returns the frames of a pass. All frames use the scale of the first frame, so the row
// becomes shorter as the pass frees bytes.
func framesOf(topic string, pass *report.PartitionPass) []replayFrame {
	steps := cleanermap.Replay(pass)
	if len(steps) == 0 {
		return nil
	}
	frames := make([]replayFrame, len(steps))
	for i := range steps {
		row := &mapRow{ID: strconv.Itoa(int(pass.Partition)), Broker: pass.Broker,
			Name: topic + "-" + strconv.Itoa(int(pass.Partition)), Blocks: []mapBlock{}}
		// A second row, with the segments from before the pass, fixes the scale.
		placed := cleanermap.Blocks([][]cleanermap.Piece{steps[i].Pieces, steps[0].Pieces}, nil)
		row.draw(topic, placed[0])
		frames[i] = replayFrame{Kind: steps[i].Kind, Text: stepText(&steps[i], pass),
			After: formatDuration(seconds(steps[i].After)), Blocks: row.Blocks}
		for index := range row.Blocks {
			block := &row.Blocks[index]
			block.Link = ""
			frames[i].Length = round3(block.X + block.Width)
		}
	}
	return frames
}

// stepText describes one step in a sentence.
func stepText(f *cleanermap.Frame, pass *report.PartitionPass) string {
	switch f.Kind {
	case report.StepAnnounce:
		chosen, garbage := 0, int64(0)
		for i := range f.Pieces {
			if f.Pieces[i].Chosen {
				chosen++
				garbage += f.Pieces[i].Garbage
			}
		}
		if chosen == 0 {
			return "The pass has compared all keys. No segment has enough garbage to be rewritten."
		}
		return "The pass has compared all keys and counted the garbage of each segment. It rewrites " +
			strconv.Itoa(chosen) + " of " + plural(len(f.Pieces), "segment") + ", which frees " +
			formatBytes(garbage) + "; the others have too little garbage."
	case report.StepGroup:
		return "It merges " + plural(f.Group, "neighbouring segment") + " into new ones."
	case report.StepRead:
		return "It reads segment " + strconv.FormatInt(f.Base, 10) + " and copies the records that " +
			"are still the latest of their keys."
	case report.StepReplace:
		if f.Group == 0 {
			return "No record was left, so the segments are removed. Freed so far: " +
				formatBytes(f.Freed) + "."
		}
		return "The new " + nounOf(f.Group, "segment") + " took the place of the old at one commit " +
			"point. Freed so far: " + formatBytes(f.Freed) + "."
	}
	if pass.Result == report.ResultFailed {
		return "The pass failed: " + pass.Error
	}
	return "The pass ended: " + formatBytes(max(f.Freed, pass.ReclaimedBytes)) + " and " +
		plural(pass.RemovedRecords, "record") + " are gone."
}

func nounOf(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
