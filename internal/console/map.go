package console

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

// mapPage is the page Cleaner map.
type mapPage struct {
	Topic     string
	Topics    []string // compacted topics to choose from
	Row       topicRow
	Followers bool // true if the rows of followers are shown too
	Frame     *mapFrame
	Passes    []passEntry
	Sort      sorting // of Passes
	CleanBy   string  // reason why Clean now is disabled, or ""
	Asked     bool    // true if a pass was just requested
}

// passEntry is a row of the history.
type passEntry struct {
	report.PartitionPass
	Began  instant
	Why    string
	Took   string // "running" while the pass runs
	Waited string // time spent waiting for the cleaner's I/O limit; "" if none or unknown
	Replay string // relative URL; "" if no steps were kept
}

// passColumns are the columns by which the history can be sorted.
var passColumns = []column[passEntry]{
	{"began", func(a, b *passEntry) int {
		return cmp.Compare(a.PartitionPass.Began, b.PartitionPass.Began)
	}},
	{"partition", func(a, b *passEntry) int { return cmp.Compare(a.Partition, b.Partition) }},
	{"why", func(a, b *passEntry) int { return cmp.Compare(a.Why, b.Why) }},
	{"result", func(a, b *passEntry) int { return cmp.Compare(a.Result, b.Result) }},
	{"took", func(a, b *passEntry) int { return cmp.Compare(a.seconds(), b.seconds()) }},
	{"read", func(a, b *passEntry) int {
		return cmp.Compare(a.ReadBytes+a.SidecarReadBytes, b.ReadBytes+b.SidecarReadBytes)
	}},
	{"written", func(a, b *passEntry) int {
		return cmp.Compare(a.WrittenBytes+a.SidecarWrittenBytes,
			b.WrittenBytes+b.SidecarWrittenBytes)
	}},
	{"reclaimed", func(a, b *passEntry) int {
		return cmp.Compare(a.ReclaimedBytes, b.ReclaimedBytes)
	}},
	{"gone", func(a, b *passEntry) int { return cmp.Compare(a.RemovedRecords, b.RemovedRecords) }},
}

// seconds returns a pass's duration. A running pass is sorted as longer than all others.
func (e *passEntry) seconds() float64 {
	if e.Ended == nil {
		return math.Inf(1)
	}
	return *e.Ended - e.PartitionPass.Began
}

// sortPasses sorts the history by the parameter sort. By default, the newest pass comes first.
func (page *mapPage) sortPasses(query url.Values) {
	page.Sort = sorted("map", query, page.Passes, passColumns)
	page.Sort.descending = page.Sort.descending ||
		page.Sort.by == "began" && query.Get("sort") != "began"
}

// historyMax is the maximum number of passes on the page.
const historyMax = 25

func (c *Console) cleanerMap(r *http.Request) (view, error) {
	q := r.URL.Query()
	all := c.opts.Fleet.Ask(r.Context(), nil)
	topics := topicsOf(all, time.Now())
	shown := parseMapView(q)
	page := mapPage{Topic: shown.topic, Followers: shown.followers, Asked: q.Get("asked") != ""}
	page.Topics = compactedTopics(topics)
	if page.Topic == "" && len(page.Topics) > 0 {
		page.Topic = busiest(topics)
	}
	index := slices.IndexFunc(topics, func(row topicRow) bool { return row.Name == page.Topic })
	switch {
	case page.Topic == "":
		return c.answered(view{Template: "map", Title: "Cleaner map", Body: page}, all), nil
	case index < 0:
		return view{}, unknownTopic(page.Topic, all)
	}
	page.Row = topics[index]
	if !page.Row.Compacted {
		return c.answered(view{Template: "map", Title: "Cleaner map", Body: page}, all), nil
	}
	w, leave, err := c.watches.join(page.Topic)
	if err != nil {
		return view{}, &fault{status: http.StatusServiceUnavailable, text: err.Error()}
	}
	defer leave()
	w.await(r.Context())
	shown.topic = page.Topic
	page.Frame, _, _ = w.current(&shown, time.Now())
	c.history(r, &page)
	page.sortPasses(q)
	page.CleanBy = c.cleanRefusal(r)
	return c.answered(view{Template: "map", Title: "Cleaner map: " + page.Topic, Body: page,
		Live: shown.url("live")}, all), nil
}

func compactedTopics(rows []topicRow) (names []string) {
	for i := range rows {
		if rows[i].Compacted {
			names = append(names, rows[i].Name)
		}
	}
	return names
}

// busiest returns the compacted topic with the most running passes. Ties are broken by the amount
// of garbage, and then by size.
func busiest(rows []topicRow) string {
	compacted := slices.DeleteFunc(slices.Clone(rows),
		func(row topicRow) bool { return !row.Compacted })
	return slices.MaxFunc(compacted, func(a, b topicRow) int {
		return cmp.Or(cmp.Compare(order(a.Internal), order(b.Internal)),
			cmp.Compare(a.Running, b.Running), cmp.Compare(a.Garbage, b.Garbage),
			cmp.Compare(a.Bytes, b.Bytes), strings.Compare(b.Name, a.Name))
	}).Name
}

// history adds the topic's last passes to the page. It ignores brokers that do not respond, because
// the page header already lists them.
func (c *Console) history(r *http.Request, page *mapPage) {
	passes := c.opts.Fleet.Passes(r.Context(), remote.PassQuery{Topic: page.Topic,
		Limit: historyMax})
	for i := range passes {
		p := &passes[i]
		if !page.Followers && !leads(page.Frame, p) {
			continue
		}
		if len(page.Passes) == historyMax {
			break
		}
		page.Passes = append(page.Passes, entryOf(p))
	}
}

// leads reports whether a pass ran on the replica that the page shows.
func leads(frame *mapFrame, p *report.PartitionPass) bool {
	return slices.ContainsFunc(frame.Rows, func(row mapRow) bool {
		return row.ID == strconv.Itoa(int(p.Partition)) && row.Broker == p.Broker
	})
}

func entryOf(p *report.PartitionPass) passEntry {
	entry := passEntry{PartitionPass: *p, Began: at(&p.Began), Why: word(triggers, p.Trigger),
		Took: "running", Waited: waitedOf(&p.Pass)}
	if p.Ended != nil {
		entry.Took = formatDuration(seconds(*p.Ended - p.Began))
	}
	if p.StepCount > 0 && p.Ended != nil {
		entry.Replay = query("replay", "topic", p.Topic, "broker", p.Broker, "pass", p.ID)
	}
	return entry
}
