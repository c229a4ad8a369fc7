package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/remote"
)

// overview is the first page. It shows the problems, the worst first, and the topics with the most
// garbage.
type overview struct {
	Cards    []card
	Problems []problem
	More     int // number of problems that are not shown
	Running  []passRow
	Garbage  []topicRow // compacted topics, those with the most garbage first
	Most     int64      // largest value; bars are drawn relative to it
}

// card is a number in the head of a page.
type card struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Note  string `json:"note"`
	Tone  string `json:"tone"` // "", "run", "wait" or "bad"
}

// problemsMax and garbageMax limit the numbers of rows on the overview.
const (
	problemsMax = 50
	garbageMax  = 12
)

func (c *Console) overview(r *http.Request) (view, error) {
	answers := c.opts.Fleet.Ask(r.Context(), nil)
	return c.answered(view{Template: "overview", Title: "Overview",
		Body: overviewOf(answers, time.Now())}, answers), nil
}

// answered sets the fields of a view that show which brokers have responded and which of them
// reject records.
func (*Console) answered(v view, answers remote.Answers) view {
	v.Brokers, v.Unanswered = max(answers.Asked, len(answers.Placement.Brokers)), answers.Unanswered
	v.Refusing = refusing(answers.Volumes)
	return v
}

func overviewOf(answers remote.Answers, now time.Time) overview {
	topics := topicsOf(answers, now)
	page := overview{Problems: problemsOf(answers), Running: runningOf(answers)}
	for i := range topics {
		if topics[i].Compacted && topics[i].Sections.Total() > 0 {
			page.Garbage = append(page.Garbage, topics[i])
			page.Most = max(page.Most, topics[i].Sections.Total())
		}
	}
	slices.SortStableFunc(page.Garbage, func(a, b topicRow) int {
		return cmp.Or(cmp.Compare(b.Garbage, a.Garbage),
			cmp.Compare(b.Sections.Total(), a.Sections.Total()))
	})
	page.Garbage = page.Garbage[:min(len(page.Garbage), garbageMax)]
	if page.More = len(page.Problems) - problemsMax; page.More > 0 {
		page.Problems = page.Problems[:problemsMax]
	}
	page.Cards = overviewCards(answers, topics, &page)
	return page
}

func overviewCards(answers remote.Answers, topics []topicRow, page *overview) []card {
	var bytes, garbage int64
	partitions, unknown := 0, 0
	for i := range topics {
		bytes += topics[i].Bytes
		garbage += topics[i].Garbage
		partitions += topics[i].Partitions
		if topics[i].Compacted && !topics[i].GarbageKnown {
			unknown++
		}
	}
	onDisk := card{Name: "Garbage still on disk", Value: formatBytes(garbage),
		Note: "in leaders' logs"}
	if unknown > 0 {
		onDisk.Value = "at least " + onDisk.Value
		onDisk.Note += ", unknown in " + plural(unknown, "topic")
	}
	up := card{Name: "Brokers up", Value: formatCount(len(answers.Placement.Brokers))}
	if missing := len(answers.Unanswered); missing > 0 {
		up.Note, up.Tone = plural(missing, "broker")+" did not respond", "bad"
	}
	attention := card{Name: "Needs attention",
		Value: formatCount(len(page.Problems) + max(0, page.More))}
	if len(page.Problems) > 0 {
		attention.Tone = "bad"
	}
	running := card{Name: "Passes running", Value: formatCount(len(page.Running))}
	if len(page.Running) > 0 {
		running.Tone = "run"
	}
	return []card{up, attention, running,
		onDisk,
		{Name: "Topics", Value: formatCount(len(topics)),
			Note: plural(partitions, "partition") + ", " + formatBytes(bytes)}}
}
