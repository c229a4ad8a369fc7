package console

import (
	"net/http"
	"slices"

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
	Lagging         int // replicas that are not in sync
	Bytes           int64
	Garbage         int64
	GarbageUnknown  bool // the garbage of a replica is unknown
	Running, Queued int  // passes
	Disks           []kafka.Disk
	Volume          *report.Volume // nil if unknown
}

// brokerList is the page Brokers.
type brokerList struct {
	Rows  []brokerRow
	Fault string // why disks are not shown; "" if they are
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
	return c.answered(view{Template: "brokers", Title: "Brokers", Body: page}, answers), nil
}

// brokersOf returns the brokers that are up, and those that should hold a replica, sorted by id.
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
		of := row(p.Broker)
		of.Bytes += p.SizeBytes
		if c := p.Compaction; c != nil {
			if c.ReclaimableBytes != nil {
				of.Garbage += *c.ReclaimableBytes
			} else {
				of.GarbageUnknown = true
			}
			if c.RunningPass != nil {
				of.Running++
			}
			if c.Phase == "queued" {
				of.Queued++
			}
		}
	}
	for i := range answers.Volumes {
		row(answers.Volumes[i].Broker).Volume = &answers.Volumes[i]
	}
	rows := make([]brokerRow, 0, len(byID))
	for _, of := range byID {
		rows = append(rows, *of)
	}
	slices.SortFunc(rows, func(a, b brokerRow) int { return int(a.ID - b.ID) })
	return rows
}
