package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func scrubCommand(f *flags) *cobra.Command {
	now, watch := false, false
	cmd := &cobra.Command{
		Use:   "scrub [TOPIC]",
		Short: "Show the checks of everything at rest, or check now",
		Long: `Show for each broker when it has checked everything at rest, and the damage that it has found.

SCRUBBED is how long ago the last complete round began: everything at rest was checked since. It is
"never" before the end of the first round, and "off" if spec.scrub.interval is Off. With TOPIC, only
the damage of the topic is listed. The exit code is 3 if a broker has found damage, or has not
reported.

With --now, the brokers check everything now, or only the files of the TOPIC: the command sets the
annotation heartwood.dev/scrub-now of the LogCluster. spec.scrub.rate limits the reads. With --now
and --watch, the command ends when all brokers have checked the files; Ctrl-C ends the command, but
not the check. The command fails if the scrub is off.`,
		Example: `  kubectl heartwood scrub
  kubectl heartwood scrub tickets --now -w`,
		Args: oneOrNone("TOPIC"),
	}
	cmd.Flags().BoolVar(&now, "now", false, "check now")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false,
		"repeat every 2 s until Ctrl-C; with --now, until the files are checked")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		cluster, topic, err := s.scrubbed(ctx, args)
		if err != nil {
			return err
		}
		if now {
			return s.scrubNow(ctx, cluster, topic, watch)
		}
		return s.repeat(ctx, watch, func(out io.Writer) error {
			if err := s.get(ctx, "LogCluster", cluster.Name, cluster); err != nil {
				return err
			}
			return s.printScrub(out, cluster, topic)
		})
	})
	return cmd
}

// scrubbed returns the LogCluster and the Kafka name of the topic in args, or "" without a topic.
func (s *session) scrubbed(ctx context.Context, args []string) (cluster *v1alpha1.LogCluster,
	topic string, err error) {
	if len(args) == 0 {
		cluster, err = s.logCluster(ctx)
		return cluster, "", err
	}
	found, cluster, err := s.topicAndCluster(ctx, args[0])
	if err != nil {
		return nil, "", err
	}
	return cluster, found.KafkaName(), nil
}

// brokerScrub is one row in the output of command scrub.
type brokerScrub struct {
	ID int32 `json:"id"`
	// Ready is the broker's readiness in the status. If the broker is not ready, the row shows its
	// last report.
	Ready bool `json:"ready"`
	// Scrub is absent until the broker has reported its scrub.
	Scrub *v1alpha1.BrokerScrub `json:"scrub,omitempty"`
}

// scrubRows returns a row for each broker. If topic is not empty, the rows contain only the topic's
// findings.
func scrubRows(cluster *v1alpha1.LogCluster, topic string) []brokerScrub {
	rows := []brokerScrub{}
	for _, b := range cluster.Status.Brokers {
		row := brokerScrub{ID: b.ID, Ready: b.Ready}
		if b.Scrub != nil {
			row.Scrub = b.Scrub.DeepCopy()
			row.Scrub.Findings = slices.DeleteFunc(row.Scrub.Findings,
				func(f v1alpha1.ScrubFinding) bool { return topic != "" && !ofTopic(f, topic) })
		}
		rows = append(rows, row)
	}
	return rows
}

// ofTopic reports whether a finding is about a file of the topic.
func ofTopic(f v1alpha1.ScrubFinding, topic string) bool {
	number, found := strings.CutPrefix(f.Partition, topic+"-")
	_, err := strconv.ParseUint(number, 10, 31)
	return found && err == nil
}

// printScrub prints the state of the scrub. It returns ErrDegraded if a broker has found damage or
// has not reported its scrub.
func (s *session) printScrub(out io.Writer, cluster *v1alpha1.LogCluster, topic string) error {
	rows := scrubRows(cluster, topic)
	var err error
	if s.json() {
		err = printJSON(out, map[string]any{"brokers": rows})
	} else {
		err = printScrubRows(out, rows, time.Now())
	}
	if err == nil && (int(cluster.Spec.Brokers) > len(rows) ||
		slices.ContainsFunc(rows, func(b brokerScrub) bool {
			return b.Scrub == nil || b.Scrub.Damaged > 0
		})) {
		return ErrDegraded
	}
	return err
}

func printScrubRows(out io.Writer, rows []brokerScrub, now time.Time) error {
	brokers := newTable("BROKER READY STATE SCRUBBED ROUND DAMAGED")
	damage := newTable("BROKER PARTITION FILE POSITION FOUND REPAIRED PROBLEM")
	for _, b := range rows {
		id, state, round := strconv.Itoa(int(b.ID)), "unknown", ""
		scrubbed, damaged := scrubColumns(b.Scrub, now)
		if b.Scrub != nil {
			state, round = b.Scrub.State, fmt.Sprintf("%d%%", b.Scrub.CheckedPercent)
			for _, f := range b.Scrub.Findings {
				repaired := ""
				if f.RepairedTime != nil {
					repaired = age(now.Sub(f.RepairedTime.Time))
				}
				damage.add(id, f.Partition, f.File, strconv.FormatInt(f.Position, 10),
					age(now.Sub(f.FoundTime.Time)), repaired, f.Problem)
			}
		}
		brokers.add(id, strconv.FormatBool(b.Ready), state, scrubbed, round, damaged)
	}
	if err := brokers.print(out, ""); err != nil || len(damage.rows) == 0 {
		return err
	}
	_, _ = fmt.Fprintln(out)
	return damage.print(out, "")
}

// scrubColumns returns how long ago the last complete round began, and the number of damaged
// segments. scrub may be nil.
func scrubColumns(scrub *v1alpha1.BrokerScrub, now time.Time) (scrubbed, damaged string) {
	switch {
	case scrub == nil:
		return "", ""
	case scrub.State == v1alpha1.ScrubStateOff:
		scrubbed = "off"
	case scrub.CheckedSinceTime == nil:
		scrubbed = "never"
	default:
		scrubbed = age(now.Sub(scrub.CheckedSinceTime.Time))
	}
	return scrubbed, strconv.Itoa(int(scrub.Damaged))
}
