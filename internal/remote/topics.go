package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
)

// Topics requests GET /api/v1/topics. If topics is empty, it returns all topics. If there are
// several addresses, it requests the reports on all replicas and summarizes them itself, because a
// broker in a separate process knows only the reports on its own replicas.
func (c *Client) Topics(ctx context.Context, addresses, topics []string) (summary.Topics, error) {
	if len(addresses) > 1 {
		return c.summarize(ctx, addresses, topics)
	}
	var response summary.Topics
	err := c.do(ctx, http.MethodGet, addresses[0],
		"/api/v1/topics?"+url.Values{"topic": topics}.Encode(), &response)
	return response, err
}

// summarize returns a summary of the topics, computed from the reports of all brokers that respond.
func (c *Client) summarize(ctx context.Context, addresses,
	topics []string) (summary.Topics, error) {
	all := NewFleet(c, addresses, false).Ask(ctx, topics)
	if len(all.Unanswered) == len(addresses) {
		return summary.Topics{}, all.Unanswered[0].Err
	}
	found := summary.Topics{Topics: []summary.Topic{}}
	polled := summary.Polled{Brokers: len(addresses),
		Responded: len(addresses) - len(all.Unanswered)}
	for _, name := range names(all.Placement.Partitions) {
		metadata, rows := summary.Metadata{Name: name}, summary.Rows{At: time.Now()}
		for i := range all.Placement.Partitions {
			if p := &all.Placement.Partitions[i]; p.Topic == name {
				metadata.Partitions++
				metadata.Replicas += len(p.Replicas)
			}
		}
		for i := range all.Partitions {
			if row := &all.Partitions[i]; row.Topic == name {
				rows.Replicas = append(rows.Replicas, *row)
				metadata.Compacted = metadata.Compacted || row.Compaction != nil
			}
		}
		found.Topics = append(found.Topics, summary.Of(metadata, rows, polled))
	}
	return found, ctx.Err()
}

// names returns the sorted names of the partitions' topics.
func names(partitions []report.PlacedPartition) (topics []string) {
	for i := range partitions {
		topics = append(topics, partitions[i].Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// PrintTopics writes a table with one line for each topic, in the format of `kubectl get topics`.
// Parameter now is the current time on the reader's machine.
func PrintTopics(out io.Writer, topics []summary.Topic, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table,
		strings.Join([]string{"TOPIC", "PARTITIONS", "SIZE", "RECORDS", "DIRTY", "RECLAIMABLE", "CLEANER",
			"CLEANED", "WHY"}, "\t"))
	for _, topic := range topics {
		_, _ = fmt.Fprintln(table, strings.Join(line(topic, now), "\t"))
	}
	return table.Flush() // writes go to memory; their errors are returned here
}

// line returns a topic's columns. A value that is unknown or does not apply is a dash.
func line(topic summary.Topic, now time.Time) []string {
	records := "-"
	if topic.Records != nil {
		if records = strconv.FormatInt(*topic.Records, 10); !topic.RecordsExact {
			records = "~" + records
		}
	}
	dirty, reclaimable, cleaner, cleaned, why := "-", "-", "-", "-", "not compacted"
	if c := topic.Compaction; c != nil {
		if c.DirtyPercent != nil {
			dirty = fmt.Sprintf("%d%%", *c.DirtyPercent)
		}
		if c.Reclaimable != nil {
			reclaimable = Bytes(c.Reclaimable.Value())
		}
		if c.Phase != "" {
			cleaner = c.Phase
		}
		if c.ProgressPercent != nil {
			cleaner += fmt.Sprintf(" %d%%", *c.ProgressPercent)
		}
		if c.EstimatedCompletionTime != nil && c.EstimatedCompletionTime.After(now) {
			cleaner += ", " + age(c.EstimatedCompletionTime.Sub(now)) + " left"
		}
		if c.LastCleanTime != nil {
			cleaned = age(now.Sub(c.LastCleanTime.Time)) + " ago"
		}
	}
	if topic.Compacting != nil {
		why = topic.Compacting.Reason + ": " + topic.Compacting.Message
	}
	return []string{topic.Topic, strconv.Itoa(topic.Partitions), Bytes(topic.SizeBytes), records,
		dirty, reclaimable, cleaner, cleaned, why}
}

// age formats a duration in the largest unit of which the duration contains at least two.
func age(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
