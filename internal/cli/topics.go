package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/health"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

func topicsCommand(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topics",
		Short: "Show the Topics of a LogCluster and the state of their compaction",
		Long: `Show the Topics of a LogCluster, one per line.

NAME is the name of the resource, and TOPIC the name of the topic in Kafka. DIRTY is the highest
dirty ratio of any partition. RECLAIMABLE is the size that cleaning all partitions would free.
CLEANED is the time since the last pass of the partition that has not been cleaned for the longest
time. WHY is the reason of condition Compacting; 'kubectl heartwood why' explains it for each
partition. UNDER-REPLICATED includes partitions that are being reassigned. A volume that is almost
full is a finding below the table.

The exit code is 3 if 'kubectl heartwood status' shows a finding of a Topic or a partition that is
critical or a warning, or if a volume is almost full. Partitions that are being assigned or
reassigned are none.`,
		Args: usage.NoArgs,
	}
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		topics, err := s.topicsOf(ctx, cluster.Name)
		if err != nil {
			return err
		}
		if s.json() {
			err = printJSON(s.out, map[string]any{"topics": topicRows(topics),
				"findings": append([]health.Finding{}, health.Storage(cluster)...)})
		} else if err = topicTable(topics, time.Now()).print(s.out, ""); err == nil {
			printFindings(s.out, health.Storage(cluster))
		}
		in := health.Input{Cluster: cluster, Topics: topics, Now: time.Now()}
		if err == nil && health.Degraded(append(health.Storage(cluster), health.Topics(in)...)) {
			return ErrDegraded
		}
		return err
	})
	return cmd
}

// topicRow is the JSON of one Topic.
type topicRow struct {
	Name   string               `json:"name"`
	Topic  string               `json:"topic"` // its name in Kafka
	Status v1alpha1.TopicStatus `json:"status"`
}

func topicRows(topics []v1alpha1.Topic) []topicRow {
	rows := []topicRow{}
	for i := range topics {
		rows = append(rows, topicRow{topics[i].Name, topics[i].KafkaName(), topics[i].Status})
	}
	return rows
}

func topicTable(topics []v1alpha1.Topic, now time.Time) *table {
	rows := newTable("NAME TOPIC READY PARTITIONS UNDER-REPLICATED DIRTY RECLAIMABLE CLEANER CLEANED WHY")
	for i := range topics {
		status := &topics[i].Status
		ready, why, dirty, reclaimable, phase, cleaned := "", "", "", "", "", ""
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); c != nil {
			ready = string(c.Status)
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCompacting); c != nil {
			why = c.Reason
		}
		if c := status.Compaction; c != nil {
			phase = c.Phase
			if c.DirtyPercent != nil {
				dirty = strconv.Itoa(int(*c.DirtyPercent)) + "%"
			}
			if c.Reclaimable != nil {
				reclaimable = remote.Bytes(c.Reclaimable.Value())
			}
			if c.ProgressPercent != nil {
				phase += " " + strconv.Itoa(int(*c.ProgressPercent)) + "%"
			}
			if c.LastCleanTime != nil {
				cleaned = age(now.Sub(c.LastCleanTime.Time)) + " ago"
			}
		}
		rows.add(topics[i].Name, topics[i].KafkaName(), ready, strconv.Itoa(int(status.Partitions)),
			strconv.Itoa(int(status.UnderReplicatedPartitions)), dirty, reclaimable, phase, cleaned, why)
	}
	return rows
}
