package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/remote"
	"heartwood.dev/heartwood/internal/topicconfig"
)

func whyCommand(f *flags) *cobra.Command {
	var account account
	replicas := false
	cmd := &cobra.Command{
		Use:   "why TOPIC",
		Short: "Explain for each partition why it is or is not being compacted",
		Long: `Explain for each partition of a Topic why it is being compacted now, or why not, with the numbers
of the partition and the settings that apply. Every replica has its own cleaner; without --replicas
the command shows those of the leaders, and the replicas whose last pass failed. BROKER is -1 for a
partition without a leader.

The exit code is 3 if a pass has failed or is overdue, if a partition has no leader, or if a broker
has not answered.`,
		Args: exactArgs("one TOPIC"),
	}
	account.add(cmd)
	cmd.Flags().BoolVar(&replicas, "replicas", false, "show all replicas")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		topic, cluster, err := s.topicAndCluster(ctx, args[0])
		if err != nil {
			return err
		}
		resolved, err := metadata.ResolveTopic(topic, cluster)
		if err != nil {
			return err
		}
		client, err := s.http(ctx, cluster, account)
		if err != nil {
			return err
		}
		rows, missing, err := s.replicas(ctx, client, cluster, topic.KafkaName())
		if err != nil {
			return err
		}
		reasons := whys(rows, &resolved.Settings, replicas, time.Now())
		if resolved.Settings.Compact {
			reasons = withLeaderless(reasons, rows, topic.Spec.Partitions)
		}
		if s.json() {
			err = printJSON(s.out, map[string]any{"topic": topic.Name, "replicas": reasons,
				"missing": orEmpty(missing)})
		} else {
			err = printWhy(s, topic, reasons)
		}
		s.printMissing(missing)
		if err == nil && (len(missing) > 0 ||
			slices.ContainsFunc(reasons, func(w why) bool { return w.Degraded })) {
			return ErrDegraded
		}
		return err
	})
	return cmd
}

// why explains one replica's cleaning state.
type why struct {
	Partition   int32  `json:"partition"`
	Broker      int32  `json:"broker"`
	Leader      bool   `json:"leader"`
	Reason      string `json:"reason"`
	Explanation string `json:"explanation"`
	Degraded    bool   `json:"degraded"`

	report *report.Compaction // nil for a partition without a leader
}

// reasonNoLeader is the reason in the row of a partition without a leader.
const reasonNoLeader = "NoLeader"

// whys returns the explanations for leaders and failed replicas, or for all replicas if all is set.
func whys(rows []report.Partition, settings *topicconfig.Settings, all bool,
	now time.Time) []why {
	found := []why{}
	for i := range rows {
		row := &rows[i]
		c := row.Compaction
		if c == nil || !all && !row.Leader && c.Reason != v1alpha1.ReasonQuarantined {
			continue
		}
		found = append(found, why{Partition: row.Partition, Broker: row.Broker, Leader: row.Leader,
			Reason: c.Reason, Explanation: explain(row, settings, now), report: c,
			Degraded: c.Reason == v1alpha1.ReasonQuarantined || c.OverdueSeconds > 0})
	}
	return found
}

// withLeaderless adds the partitions without a leader. No broker reports them as the leader.
func withLeaderless(reasons []why, rows []report.Partition, partitions int32) []why {
	led := map[int32]bool{}
	for i := range rows {
		led[rows[i].Partition] = led[rows[i].Partition] || rows[i].Leader
	}
	for partition := range partitions {
		if !led[partition] {
			reasons = append(reasons, why{Partition: partition, Broker: -1, Reason: reasonNoLeader,
				Explanation: "no broker that has answered leads the partition: kubectl heartwood " +
					"status shows what it waits for", Degraded: true})
		}
	}
	slices.SortStableFunc(reasons, func(a, b why) int { return cmp.Compare(a.Partition, b.Partition) })
	return reasons
}

func printWhy(s *session, topic *v1alpha1.Topic, reasons []why) error {
	if len(reasons) == 0 {
		_, err := fmt.Fprintf(s.out, "Topic %s is not compacted, or no leader has answered.\n",
			topic.Name)
		return err
	}
	rows := newTable("PARTITION BROKER DIRTY GARBAGE REASON EXPLANATION")
	for _, w := range reasons {
		broker := strconv.Itoa(int(w.Broker))
		if w.Leader {
			broker += " (leader)"
		}
		dirty, garbage := "", ""
		if w.report != nil {
			dirty = percent(w.report.DirtyRatio)
			if w.report.ReclaimableBytes != nil {
				garbage = remote.Bytes(*w.report.ReclaimableBytes)
			}
		}
		rows.add(strconv.Itoa(int(w.Partition)), broker, dirty, garbage, w.Reason, w.Explanation)
	}
	return rows.print(s.out, "")
}

func percent(ratio float64) string { return fmt.Sprintf("%.0f%%", 100*ratio) }

// explain describes the cleaning state of a replica in one sentence.
func explain(row *report.Partition, settings *topicconfig.Settings, now time.Time) string {
	c := row.Compaction
	text := reasonText(row, settings, now)
	if c.OverdueSeconds > 0 {
		text += fmt.Sprintf("; overdue: compaction.maxLag %s was exceeded by %s", settings.MaxLag,
			age(seconds(c.OverdueSeconds)))
	}
	if c.NextDue != nil && c.RunningPass == nil {
		if left := unix(*c.NextDue).Sub(now); left > 0 {
			text += "; a pass is due in " + age(left) + " at the latest"
		}
	}
	return text
}

// reasonText explains the reason in a replica's report.
func reasonText(row *report.Partition, settings *topicconfig.Settings, now time.Time) string {
	c := row.Compaction
	known, ok := summary.Explain(c.Reason)
	if !ok {
		return "this version does not know the reason"
	}
	facts := summary.Facts{Phase: c.Phase, Done: percent(c.ProgressRatio), Trigger: c.Trigger,
		Dirty: percent(c.DirtyRatio), MinDirty: fmt.Sprintf("%v%%", settings.MinDirtyPercent),
		Active:      remote.Bytes(c.BlockedBytes["active_segment"]),
		MinLag:      fmt.Sprint(settings.MinLag),
		Transaction: blockedText(row.OldestTransaction, now), Error: printable(c.LastError)}
	if c.EtaSeconds != nil {
		facts.Left = age(seconds(*c.EtaSeconds))
	}
	return known.Why(facts)
}

func blockedText(open *report.Transaction, now time.Time) string {
	if open == nil {
		return "an open transaction blocks the cleaner"
	}
	text := fmt.Sprintf("a transaction of producer %d is open for %s", open.ProducerID,
		age(now.Sub(unix(open.Since))))
	if open.TransactionalID != "" {
		text += ", transactional id " + printable(open.TransactionalID)
	}
	if open.Hanging {
		text += "; no coordinator will end it: heartwood transactions find-hanging"
	}
	return text
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func unix(n float64) time.Time { return time.UnixMilli(int64(n * 1000)) }
