package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// brokerRow is one broker on the page Brokers.
type brokerRow struct {
	ID              int32
	Host            string
	Up              bool
	Leads, Replicas int
	Lagging         int // number of replicas that are not in sync
	Bytes           int64
	Garbage         int64
	GarbageUnknown  bool // true if the garbage of a replica is unknown
	Running, Queued int  // numbers of passes
	Disks           []kafka.Disk
	Volume          *report.Volume // nil if unknown
}

// brokerList is the page Brokers.
type brokerList struct {
	Rows  []brokerRow
	Fault string // reason why no disks are shown, or ""
	Sort  sorting
	Scrub scrubPanel
}

// brokerColumns are the columns by which the page can be sorted.
var brokerColumns = []column[brokerRow]{
	{"id", func(a, b *brokerRow) int { return cmp.Compare(a.ID, b.ID) }},
	{"state", func(a, b *brokerRow) int { return cmp.Compare(order(a.Up), order(b.Up)) }},
	{"leads", func(a, b *brokerRow) int { return cmp.Compare(a.Leads, b.Leads) }},
	{"replicas", func(a, b *brokerRow) int { return cmp.Compare(a.Replicas, b.Replicas) }},
	{"lagging", func(a, b *brokerRow) int { return cmp.Compare(a.Lagging, b.Lagging) }},
	{"logs", func(a, b *brokerRow) int { return cmp.Compare(a.Bytes, b.Bytes) }},
	{"garbage", func(a, b *brokerRow) int {
		return comparePointers(a.knownGarbage(), b.knownGarbage())
	}},
	{"passes", func(a, b *brokerRow) int {
		return cmp.Or(cmp.Compare(a.Running, b.Running), cmp.Compare(a.Queued, b.Queued))
	}},
	{"pressure", func(a, b *brokerRow) int { return cmp.Compare(a.usedPercent(), b.usedPercent()) }},
}

// knownGarbage returns the amount of garbage, or nil if it is unknown.
func (b *brokerRow) knownGarbage() *int64 {
	if b.GarbageUnknown {
		return nil
	}
	return &b.Garbage
}

// usedPercent returns the usage of the volume in percent, or -1 if it is unknown.
func (b *brokerRow) usedPercent() float64 {
	if b.Volume == nil {
		return -1
	}
	return float64(b.Volume.UsedPercent)
}

func (c *Console) brokers(r *http.Request) (view, error) {
	answers := c.opts.Fleet.Ask(r.Context(), nil)
	page := brokerList{Rows: brokersOf(answers)}
	client, err := c.kafka()
	var disks []kafka.Disk
	if err == nil {
		disks, err = client.Disks(r.Context())
	}
	if err != nil {
		page.Fault = err.Error()
	}
	for _, disk := range disks {
		for i := range page.Rows {
			if page.Rows[i].ID == disk.Broker {
				page.Rows[i].Disks = append(page.Rows[i].Disks, disk)
			}
		}
	}
	page.Scrub = scrubPanelOf(c.opts.Fleet.Scrubs(r.Context()), time.Now())
	page.Sort = sorted("brokers", r.URL.Query(), page.Rows, brokerColumns)
	return c.answered(view{Template: "brokers", Title: "Brokers", Body: page}, answers), nil
}

// brokersOf returns the brokers that are up and the brokers to which replicas are assigned, sorted
// by id.
func brokersOf(answers remote.Answers) []brokerRow {
	byID := map[int32]*brokerRow{}
	row := func(id int32) *brokerRow {
		if byID[id] == nil {
			byID[id] = &brokerRow{ID: id}
		}
		return byID[id]
	}
	for _, b := range answers.Placement.Brokers {
		row(b.Broker).Host, row(b.Broker).Up = b.Host, true
	}
	for i := range answers.Placement.Partitions {
		p := &answers.Placement.Partitions[i]
		if p.Leader >= 0 {
			row(p.Leader).Leads++
		}
		for _, id := range p.Replicas {
			row(id).Replicas++
			if !slices.Contains(p.InSyncReplicas, id) {
				row(id).Lagging++
			}
		}
	}
	for i := range answers.Partitions {
		p := &answers.Partitions[i]
		brokerRow := row(p.Broker)
		brokerRow.Bytes += p.SizeBytes
		if c := p.Compaction; c != nil {
			if c.ReclaimableBytes != nil {
				brokerRow.Garbage += *c.ReclaimableBytes
			} else {
				brokerRow.GarbageUnknown = true
			}
			if c.RunningPass != nil {
				brokerRow.Running++
			}
			if c.Phase == "queued" {
				brokerRow.Queued++
			}
		}
	}
	for i := range answers.Volumes {
		row(answers.Volumes[i].Broker).Volume = &answers.Volumes[i]
	}
	rows := make([]brokerRow, 0, len(byID))
	for _, brokerRow := range byID {
		rows = append(rows, *brokerRow)
	}
	slices.SortFunc(rows, func(a, b brokerRow) int { return int(a.ID - b.ID) })
	return rows
}
