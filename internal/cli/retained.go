package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/remote"
)

func retainedCommand(f *flags) *cobra.Command {
	var account account
	cmd := &cobra.Command{
		Use:   "retained",
		Short: "Show the deleted topics whose records are retained; remove the records",
		Long: `Show the deleted topics whose records are retained (reclaimPolicy Retain). A Topic of the same
name continues with the records; 'kubectl heartwood retained remove' deletes them.

ID is the beginning of the topic id. SIZE is the space on the disks of all brokers. RECORDS is the
number of offsets, and so the largest possible number of records: a compacted topic has fewer. STATE
is Removing until all brokers have deleted the records.`,
		Args: usage.NoArgs,
	}
	account.add(cmd)
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		retained, err := s.retained(ctx, cluster, account)
		if err != nil {
			return err
		}
		if s.json() {
			return printJSON(s.out, retained)
		}
		if err := retainedTable(retained.Topics).print(s.out, ""); err != nil {
			return err
		}
		retained.printNotes(s)
		return nil
	})
	cmd.AddCommand(removeRetainedCommand(f))
	return cmd
}

// retained is the output of command retained.
type retained struct {
	Topics []retainedTopic `json:"topics"`
	// Others contains the retained logs that belong to none of the topics.
	Others  otherLogs `json:"others"`
	Missing []silent  `json:"missing,omitempty"` // brokers that have not responded
	// Unknown is the reason why the brokers' reports could not be requested, or "".
	Unknown string `json:"unknown,omitempty"`
}

// retainedTopic is a deleted topic whose records are retained.
type retainedTopic struct {
	Topic      string  `json:"topic"`
	ID         string  `json:"id"`                // the first 8 characters of the topic id
	TopicID    string  `json:"topicId,omitempty"` // absent if no broker with records has responded
	Partitions []int32 `json:"partitions"`
	Brokers    []int32 `json:"brokers"`   // brokers that should have the records
	SizeBytes  *int64  `json:"sizeBytes"` // null if not all of these brokers have responded
	RecordsMax *int64  `json:"recordsMax"`
	Removing   bool    `json:"removing"`
}

// otherLogs counts retained logs that do not belong to a deleted topic with an entry: logs of
// replicas that were moved away, and logs of another cluster.
type otherLogs struct {
	Logs      int   `json:"logs"`
	SizeBytes int64 `json:"sizeBytes"`
}

// retained reads a LogCluster's deleted topics whose records are retained. It omits the sizes if
// the brokers' reports cannot be requested.
func (s *session) retained(ctx context.Context, cluster *v1alpha1.LogCluster,
	account account) (*retained, error) {
	partitions, err := s.retainedPartitions(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	found := &retained{Topics: []retainedTopic{}}
	answers := map[int32]report.RetainedLogs{}
	http, err := s.http(ctx, cluster, account)
	if err == nil {
		answers, found.Missing, err = ask[report.RetainedLogs](ctx, s, http, cluster, "/api/v1/retained")
	}
	if err != nil {
		found.Unknown = err.Error()
	}
	for _, p := range partitions {
		index := slices.IndexFunc(found.Topics,
			func(t retainedTopic) bool { return t.Topic == p.Topic && t.ID == p.Tag })
		if index < 0 {
			index = len(found.Topics)
			found.Topics = append(found.Topics, retainedTopic{Topic: p.Topic, ID: p.Tag})
		}
		found.Topics[index].Partitions = append(found.Topics[index].Partitions, p.Partition)
		found.Topics[index].Brokers = append(found.Topics[index].Brokers, p.Replicas...)
		found.Topics[index].Removing = found.Topics[index].Removing || p.Removing
	}
	for i := range found.Topics {
		found.Topics[i].measure(answers)
	}
	found.measureOthers(answers)
	return found, nil
}

// retainedPartitions reads the retained partitions from the PartitionSets.
func (s *session) retainedPartitions(ctx context.Context,
	cluster string) ([]metadata.RetainedPartition, error) {
	list := &v1alpha1.PartitionSetList{}
	if err := s.api.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return nil, fmt.Errorf("list the PartitionSets of namespace %s: %w", s.namespace, err)
	}
	var all []metadata.RetainedPartition
	for i := range list.Items {
		if list.Items[i].Spec.Cluster == cluster {
			set, _ := partitionset.Decode(&list.Items[i], nil)
			all = append(all, set.Retained()...)
		}
	}
	slices.SortFunc(all, metadata.RetainedPartition.Compare)
	return all, nil
}

// has reports whether a log contains records of one of the topic's partitions.
func (t *retainedTopic) has(log report.RetainedLog) bool {
	return strings.HasPrefix(log.TopicID, t.ID) && slices.Contains(t.Partitions, log.Partition)
}

// measure adds the sizes that the brokers report for the topic's logs.
func (t *retainedTopic) measure(answers map[int32]report.RetainedLogs) {
	slices.Sort(t.Brokers)
	t.Brokers = slices.Compact(t.Brokers)
	size, offsets := int64(0), map[int32]int64{}
	for _, answer := range answers {
		for _, log := range answer.Logs {
			if t.has(log) {
				t.TopicID = log.TopicID
				size += log.SizeBytes
				offsets[log.Partition] = max(offsets[log.Partition], log.Offsets)
			}
		}
	}
	if slices.ContainsFunc(t.Brokers, func(id int32) bool { _, ok := answers[id]; return !ok }) {
		return
	}
	records := int64(0)
	for _, n := range offsets {
		records += n
	}
	t.SizeBytes, t.RecordsMax = &size, &records
}

func (r *retained) measureOthers(answers map[int32]report.RetainedLogs) {
	for _, answer := range answers {
		for _, log := range answer.Logs {
			if !slices.ContainsFunc(r.Topics,
				func(t retainedTopic) bool { return t.has(log) }) {
				r.Others.Logs++
				r.Others.SizeBytes += log.SizeBytes
			}
		}
	}
}

func retainedTable(topics []retainedTopic) *table {
	rows := newTable("TOPIC ID PARTITIONS BROKERS SIZE RECORDS STATE")
	for _, t := range topics {
		size, records, state := "", "", "Retained"
		if t.SizeBytes != nil {
			size, records = remote.Bytes(*t.SizeBytes), strconv.FormatInt(*t.RecordsMax, 10)
		}
		if t.Removing {
			state = "Removing"
		}
		brokers := make([]string, len(t.Brokers))
		for i, id := range t.Brokers {
			brokers[i] = strconv.Itoa(int(id))
		}
		rows.add(t.Topic, cmp.Or(t.TopicID, t.ID), strconv.Itoa(len(t.Partitions)),
			strings.Join(brokers, ","), size, records, state)
	}
	return rows
}

// printNotes prints why numbers are incomplete, and what the table does not contain.
func (r *retained) printNotes(s *session) {
	if r.Unknown != "" {
		_, _ = fmt.Fprintln(s.errOut, "Sizes are unknown:", printable(r.Unknown))
	}
	for _, m := range r.Missing {
		_, _ = fmt.Fprintf(s.errOut, "Broker %d has not answered: %s\n", m.Broker, printable(m.Error))
	}
	if r.Others.Logs > 0 {
		_, _ = fmt.Fprintf(s.errOut, "The brokers have %d other retained logs (%s), of replicas that "+
			"were moved away or of other clusters.\n", r.Others.Logs, remote.Bytes(r.Others.SizeBytes))
	}
}
