package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/kafka"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/kafkaclient"
)

// groupsFlags contains the flags of command groups.
type groupsFlags struct {
	connection kafkaFlags
	consent    consent
	reset      string
	topic      string
}

func groupsCommand(f *flags) *cobra.Command {
	g := &groupsFlags{}
	cmd := &cobra.Command{
		Use:   "groups [GROUP]",
		Short: "Show consumer groups and their lag; reset their offsets",
		Long: `Show the consumer groups of a LogCluster with their lag, or the partitions of one GROUP.

LAG is the number of offsets between the committed offset and the end of the partition. A compacted
partition has fewer records than offsets. NOTE "deleted" means that records were deleted before the
group has read them.

With --reset the committed offsets of GROUP change: to earliest, latest, an offset, a time (RFC
3339, such as 2026-11-23T08:00:00Z), or a duration ago (such as 1h). The group must have no members.
An offset outside a partition is moved to its start or end.`,
		Example: `  kubectl heartwood groups
  kubectl heartwood groups billing
  kubectl heartwood groups billing --reset earliest --topic tickets`,
		Args: oneOrNone("GROUP"),
	}
	g.connection.add(cmd)
	g.consent.add(cmd)
	cmd.Flags().StringVar(&g.reset, "reset", "",
		"`POSITION` reset the committed offsets: earliest, latest, an offset, a time or a duration")
	cmd.Flags().StringVar(&g.topic, "topic", "",
		"`TOPIC` reset only this topic (default: all topics that the group has committed)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if g.reset != "" && len(args) != 1 {
			return misused(cmd, "--reset needs one GROUP")
		}
		return f.run(g.run)(cmd, args)
	}
	return cmd
}

func (g *groupsFlags) run(ctx context.Context, s *session, args []string) error {
	cluster, err := s.logCluster(ctx)
	if err != nil {
		return err
	}
	options, err := g.connection.connect(ctx, s, cluster)
	if err != nil {
		return err
	}
	if g.reset != "" {
		return g.resetGroup(ctx, s, cluster, options, args[0])
	}
	groups, missing, err := kafka.Groups(ctx, options, args)
	if missing != nil {
		_, _ = fmt.Fprintf(s.errOut, "Groups are missing, because some brokers did not answer: %v\n",
			missing)
	}
	switch {
	case err != nil:
		return err
	case len(args) == 1 && len(groups) == 1 && groups[0].Absent():
		return fmt.Errorf("LogCluster %s has no consumer group %q", cluster.Name, args[0])
	case s.json():
		return printJSON(s.out, map[string]any{"groups": groups})
	case len(args) == 1:
		return printGroup(s, groups)
	}
	rows := newTable("GROUP STATE MEMBERS LAG COORDINATOR ERROR")
	for _, group := range groups {
		rows.add(group.Group, group.State, strconv.Itoa(group.Members), offset(group.Lag),
			strconv.Itoa(int(group.Coordinator)), group.Error)
	}
	return rows.print(s.out, "")
}

// offset formats an offset or a lag; the result is "" if it is unknown.
func offset(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func printGroup(s *session, groups []kafka.Group) error {
	for _, group := range groups {
		if group.Error != "" {
			return fmt.Errorf("group %s: %s", group.Group, group.Error)
		}
		_, _ = fmt.Fprintf(s.out, "Group %s: %s, members: %d, lag: %s\n", printable(group.Group),
			group.State, group.Members, offset(group.Lag))
		rows := newTable("TOPIC PARTITION COMMITTED START END LAG MEMBER HOST NOTE")
		for _, p := range group.Partitions {
			note := ""
			if p.BelowStart {
				note = "deleted"
			}
			rows.add(p.Topic, strconv.Itoa(int(p.Partition)), offset(p.Committed), offset(p.Start),
				offset(p.End), offset(p.Lag), p.Member, p.Host, note)
		}
		if err := rows.print(s.out, ""); err != nil {
			return err
		}
	}
	return nil
}

// parseReset parses the value of --reset.
func parseReset(text string, now time.Time) (kafka.Reset, error) {
	switch text {
	case "earliest":
		return kafka.Reset{To: kafkaclient.Earliest}, nil
	case "latest":
		return kafka.Reset{To: kafkaclient.Latest}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return kafka.Reset{To: kafkaclient.AtOffset, Offset: n}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return kafka.Reset{To: kafkaclient.AtTime, Millis: now.Add(-ago).UnixMilli()}, nil
	}
	if moment, err := time.Parse(time.RFC3339, text); err == nil {
		return kafka.Reset{To: kafkaclient.AtTime, Millis: moment.UnixMilli()}, nil
	}
	return kafka.Reset{}, usage.New(fmt.Errorf("invalid argument %q for --reset: give earliest, "+
		"latest, an offset, a time such as 2026-11-23T08:00:00Z, or a duration such as 1h", text))
}

func (g *groupsFlags) resetGroup(ctx context.Context, s *session, cluster *v1alpha1.LogCluster,
	o kafkaclient.Options, group string) error {
	reset, err := parseReset(g.reset, time.Now())
	if err != nil {
		return err
	}
	reset.Group = group
	if g.topic != "" {
		topic, err := s.topicIn(ctx, g.topic, cluster.Name)
		if err != nil {
			return err
		}
		reset.Topic = topic.KafkaName()
	}
	changes, err := kafka.PlanReset(ctx, o, reset)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return errors.New("there is no partition to reset")
	}
	steps := make([]string, len(changes))
	for i, c := range changes {
		steps[i] = fmt.Sprintf("commit offset %d of %s-%d for group %s (now %d)", c.To, c.Topic,
			c.Partition, group, c.From)
	}
	if confirmed, err := g.consent.confirm(s, steps...); !confirmed {
		return err
	}
	if err := kafka.Commit(ctx, o, group, changes); err != nil {
		return err
	}
	return g.consent.done(s, steps, fmt.Sprintf("group %s: %d offsets committed", group,
		len(changes)))
}
