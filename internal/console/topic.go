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

// tabs are the tabs on a topic's page.
var tabs = []string{"messages", "keys", "replicas", "settings", "groups"}

// topicPage is the page of one topic. Only the fields for the selected tab are set.
type topicPage struct {
	Name string
	Tab  string
	Row  topicRow

	Messages messages
	Keys     keys
	Replicas []replicaRow
	Settings []settingRow
	Groups   []groupRow
	Sort     sorting // order of Groups or Replicas
	// Fault is the reason why the tab cannot be shown, or "".
	Fault string
	// Refusal is the reason why the user may not produce records, or "".
	Refusal string
}

// replicaRow is a partition with its replicas.
type replicaRow struct {
	report.PlacedPartition
	Replicas []replicaCell
}

// replicaCell is one replica of a partition.
type replicaCell struct {
	Broker         int32
	Leader, InSync bool
	Joining        bool // true if a reassignment adds the replica
	Report         *report.Partition
	Status         status
}

// replicaColumns are the columns by which partitions with their replicas can be sorted. The values
// are the leader's or, without a leader, the first replica's.
var replicaColumns = []column[replicaRow]{
	{"partition", func(a, b *replicaRow) int { return cmp.Compare(a.Partition, b.Partition) }},
	{"broker", func(a, b *replicaRow) int { return cmp.Compare(a.first().Broker, b.first().Broker) }},
	byReport("size", func(p *report.Partition) int64 { return p.SizeBytes }),
	byReport("segments", func(p *report.Partition) int64 { return int64(p.Segments) }),
	byReport("start", func(p *report.Partition) int64 { return p.LogStartOffset }),
	byReport("end", func(p *report.Partition) int64 { return p.LogEndOffset }),
	{"cleaner", func(a, b *replicaRow) int {
		return cmp.Compare(a.first().Status.Head, b.first().Status.Head)
	}},
}

// byReport returns a column that sorts by a number in the brokers' reports. A partition without a
// report is below all others.
func byReport(name string, number func(*report.Partition) int64) column[replicaRow] {
	reported := func(row *replicaRow) *int64 {
		partition := row.first().Report
		if partition == nil {
			return nil
		}
		n := number(partition)
		return &n
	}
	return column[replicaRow]{name, func(a, b *replicaRow) int {
		return comparePointers(reported(a), reported(b))
	}}
}

// first returns the leader's replica or, without a leader, the first replica.
func (row *replicaRow) first() replicaCell {
	leader := slices.IndexFunc(row.Replicas, func(cell replicaCell) bool { return cell.Leader })
	switch {
	case leader >= 0:
		return row.Replicas[leader]
	case len(row.Replicas) > 0:
		return row.Replicas[0]
	}
	return replicaCell{Broker: -1}
}

func (c *Console) topic(r *http.Request) (view, error) {
	q := r.URL.Query()
	page := topicPage{Name: q.Get("name"), Tab: q.Get("tab")}
	answers := c.opts.Fleet.Ask(r.Context(), []string{page.Name})
	rows := topicsOf(answers, time.Now())
	if len(rows) != 1 {
		return view{}, unknownTopic(page.Name, answers)
	}
	page.Row = rows[0]
	if !slices.Contains(tabs, page.Tab) {
		page.Tab = tabs[0]
	}
	if page.Tab == "messages" {
		page.Refusal = c.refusalOf(r, WriteRecords)
	}
	status := 0
	if err := c.fill(r, &page, answers); err != nil {
		page.Fault, status = err.Error(), statusOfError(err)
	}
	v := view{Template: "topic", Title: page.Name, Page: "topics", Status: status, Body: page}
	if page.Messages.Position == positionTail {
		v.Live = page.Messages.Tail
		if status == 0 || status >= http.StatusInternalServerError { // not if the form is invalid
			v.Refresh = tailRefresh
		}
	}
	return c.answered(v, answers), nil
}

// unknownTopic returns the error for a topic that no broker knows.
func unknownTopic(name string, answers remote.Answers) error {
	if len(answers.Unanswered) == answers.Asked {
		return &fault{status: http.StatusBadGateway, text: "No broker responds.",
			cause: answers.Unanswered[0].Err}
	}
	return &fault{status: http.StatusNotFound, text: "There is no topic with the name " + name + "."}
}

// fill sets the fields for the page's tab.
func (c *Console) fill(r *http.Request, page *topicPage, answers remote.Answers) error {
	if page.Tab == "replicas" {
		page.Replicas = replicasOf(answers)
		page.Sort = sorted("topic", r.URL.Query(), page.Replicas, replicaColumns)
		return nil
	}
	if page.Tab == "messages" || page.Tab == "keys" {
		if err := c.mayRead(r); err != nil {
			return err
		}
	}
	if page.Tab == "keys" {
		var err error
		page.Keys, err = c.lookUp(r, page.Name, page.Row.Partitions)
		return err
	}
	client, err := c.kafka()
	if err != nil {
		return err
	}
	switch page.Tab {
	case "messages":
		page.Messages, err = c.browse(r, client, page.Name, page.Row.Compacted)
	case "settings":
		var settings []kafka.Setting
		settings, err = client.Settings(r.Context(), page.Name)
		page.Settings = settingRows(settings, answers)
	case "groups":
		page.Groups, err = groupsOf(r, client, page.Name)
		page.Sort = sorted("topic", r.URL.Query(), page.Groups, groupColumns)
	}
	return err
}

// replicasOf returns the partitions in the answers with their replicas.
func replicasOf(answers remote.Answers) []replicaRow {
	rows := make([]replicaRow, 0, len(answers.Placement.Partitions))
	for i := range answers.Placement.Partitions {
		p := answers.Placement.Partitions[i]
		row := replicaRow{PlacedPartition: p}
		brokers := slices.Clone(p.Replicas)
		for _, target := range p.Target {
			if !slices.Contains(brokers, target) {
				brokers = append(brokers, target)
			}
		}
		for _, broker := range brokers {
			cell := replicaCell{Broker: broker, Leader: broker == p.Leader,
				InSync:  slices.Contains(p.InSyncReplicas, broker),
				Joining: !slices.Contains(p.Replicas, broker)}
			index := slices.IndexFunc(answers.Partitions, func(other report.Partition) bool {
				return other.Broker == broker && other.Partition == p.Partition &&
					other.Topic == p.Topic
			})
			if index >= 0 {
				cell.Report = &answers.Partitions[index]
				cell.Status = statusOf(cell.Report.Compaction)
			}
			row.Replicas = append(row.Replicas, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// groupsOf returns the consumer groups that have offsets for the topic, with only these offsets.
func groupsOf(r *http.Request, client *kafka.Client, topic string) ([]groupRow, error) {
	all, _, err := client.Groups(r.Context())
	if err != nil {
		return nil, err
	}
	var found []kafka.Group
	for _, group := range all {
		group.Offsets = slices.DeleteFunc(group.Offsets,
			func(o kafka.GroupOffset) bool { return o.Topic != topic })
		if len(group.Offsets) > 0 {
			found = append(found, group)
		}
	}
	client.AddWaits(r.Context(), found)
	return groupRows(found, time.Now()), nil
}
