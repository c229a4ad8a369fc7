package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/remote"
)

func acceptLossCommand(f *flags) *cobra.Command {
	var account account
	name := ""
	cmd := &cobra.Command{
		Use:   "accept-loss TOPIC/PARTITION",
		Short: "Let a partition continue without records that were lost",
		Long: `Let a partition without a leader continue without the records that it waits for.

The command shows what is lost, as far as it is known, and asks for the name of the partition. It
then sets the annotation heartwood.dev/accept-data-loss of the Topic. The consent holds for one
election: a later loss needs another one. The lost records do not come back, even if the missing
broker or disk returns.

Wait instead if a broker that status names can return. If several partitions have lost records,
begin with those that status shows: the status of a Topic contains the worst 5 partitions.`,
		Args: exactArgs("one TOPIC/PARTITION"),
	}
	account.add(cmd)
	cmd.Flags().StringVar(&name, "name", "",
		"`TOPIC/PARTITION` repeat the name of the partition here, instead of being asked for it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(func(ctx context.Context, s *session, args []string) error {
			loss, err := s.loss(ctx, args[0], account)
			if err != nil {
				return err
			}
			if err := loss.print(s); err != nil {
				return err
			}
			if err := loss.confirm(s, name, cmd.InOrStdin()); err != nil {
				return err
			}
			return loss.accept(ctx, s)
		})(cmd, args)
	}
	return cmd
}

// loss describes a partition that remains offline unless the loss of records is accepted.
type loss struct {
	topic     *v1alpha1.Topic
	partition int32
	problem   v1alpha1.PartitionProblem
	state     *partitionset.State // nil if it could not be read
	replicas  []report.Partition  // reports of the brokers that have responded
	note      string              // reason why replicas is incomplete
}

func (l *loss) name() string { return fmt.Sprintf("%s/%d", l.topic.Name, l.partition) }

// loss reads what is known about a partition that remains offline unless the loss of records is
// accepted.
func (s *session) loss(ctx context.Context, text string, account account) (*loss, error) {
	name, partition, err := parsePartition(text)
	if err != nil {
		return nil, err
	}
	topic, cluster, err := s.topicAndCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	l := &loss{topic: topic, partition: partition}
	index := slices.IndexFunc(topic.Status.Problems,
		func(p v1alpha1.PartitionProblem) bool { return p.Partition == partition })
	if index < 0 {
		return nil, s.unlisted(ctx, l, cluster)
	}
	if l.problem = topic.Status.Problems[index]; l.problem.Consent == "" {
		return nil, fmt.Errorf("partition %s waits for no records that could be given up: %s: %s",
			l.name(), l.problem.Reason, l.problem.Message)
	}
	if entry, err := s.entry(ctx, topic, cluster, partition); err == nil {
		l.state = entry.State
	}
	client, err := s.http(ctx, cluster, account)
	if err == nil {
		var missing []silent
		if l.replicas, missing, err = s.replicas(ctx, client, cluster,
			topic.KafkaName()); len(missing) > 0 {
			l.note = "brokers that have not answered:"
			for _, m := range missing {
				l.note += " " + strconv.Itoa(int(m.Broker))
			}
		}
	}
	if err != nil {
		l.note = err.Error()
	}
	l.replicas = slices.DeleteFunc(l.replicas,
		func(p report.Partition) bool { return p.Partition != partition })
	return l, nil
}

// unlisted returns the error for a partition that is not among the problems in the Topic's status.
// The status contains only the worst partitions, so this partition may have lost records too. The
// loss cannot be accepted yet, because only the status contains the required consent value.
func (s *session) unlisted(ctx context.Context, l *loss, cluster *v1alpha1.LogCluster) error {
	entry, err := s.entry(ctx, l.topic, cluster, l.partition)
	placed := entry.State
	full := len(l.topic.Status.Problems) >= v1alpha1.TopicProblemsMax
	switch {
	case l.partition >= l.topic.Spec.Partitions:
		return fmt.Errorf("topic %s has no partition %d", l.topic.Name, l.partition)
	case err == nil && (placed == nil || placed.Leader >= 0 || placed.LeaderEpoch == 0),
		err != nil && !full:
		return fmt.Errorf("partition %s is not among the problems in the status of the Topic: "+
			"there is nothing to accept", l.name())
	case !full:
		return fmt.Errorf("partition %s has no leader, and the status of the Topic does not contain "+
			"it yet: try again", l.name())
	}
	state := "has no leader"
	if err != nil {
		state = "may have no leader (" + err.Error() + ")"
	}
	return fmt.Errorf("partition %s %s, but is not among the %d worst partitions, which alone are in "+
		"the status of the Topic: %s", l.name(), state, v1alpha1.TopicProblemsMax, l.first())
}

// first returns the advice to handle the partitions in the status first.
func (l *loss) first() string {
	var names []string
	for _, p := range l.topic.Status.Problems {
		if p.Consent != "" {
			names = append(names, fmt.Sprintf("%s/%d", l.topic.Name, p.Partition))
		}
	}
	if len(names) == 0 {
		return "none of these waits for lost records; kubectl heartwood status shows what they wait for"
	}
	return "accept first the loss of " + strings.Join(names, ", ")
}

// print prints what would be lost.
func (l *loss) print(s *session) error {
	out := s.planOut()
	_, _ = fmt.Fprintf(out, "Partition %s: %s\n%s\n\n", l.name(), l.problem.Reason,
		printable(l.problem.Message))
	if l.state != nil {
		var inSync []int32
		for _, member := range l.state.ISR {
			inSync = append(inSync, member.Broker)
		}
		_, _ = fmt.Fprintf(out, "Last leader epoch: %d. Replicas: %v. In sync, with every "+
			"acknowledged record: %v.\n", l.state.LeaderEpoch, l.state.Replicas, inSync)
	}
	rows := newTable("BROKER START END SIZE FAULT")
	for _, p := range l.replicas {
		rows.add(strconv.Itoa(int(p.Broker)), strconv.FormatInt(p.LogStartOffset, 10),
			strconv.FormatInt(p.LogEndOffset, 10), remote.Bytes(p.SizeBytes), p.Fault)
	}
	if len(l.replicas) > 0 {
		_, _ = fmt.Fprintln(out, "The replicas that are left:")
		if err := rows.print(out, "  "); err != nil {
			return err
		}
	}
	if l.note != "" {
		_, _ = fmt.Fprintln(out, "Not all replicas are known:", printable(l.note))
	}
	_, err := fmt.Fprint(out,
		"\nLost for good: every record that only the missing replicas have, also "+
			"if they return. If no replica is left, that is every record of the partition.\n")
	return err
}

// confirm asks the user to enter the partition's name, unless the flag contains it.
func (l *loss) confirm(s *session, name string, in io.Reader) error {
	if name == "" {
		if !terminal.Is(in) {
			return usage.New(errors.New("standard input is not a terminal: give the name of the " +
				"partition again with --name"))
		}
		_, _ = fmt.Fprint(s.errOut, "Type the name of the partition to accept the loss: ")
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the name: %w", err)
		}
		name = strings.TrimSpace(line)
	}
	if name != l.name() {
		return errNotConfirmed
	}
	return nil
}

// accept writes the consent to the annotation. It keeps consents for other partitions.
func (l *loss) accept(ctx context.Context, s *session) error {
	words := []string{fmt.Sprintf("%d=%s", l.partition, l.problem.Consent)}
	for partition, consent := range l.topic.AcceptedDataLoss() {
		if partition != l.partition {
			words = append(words, fmt.Sprintf("%d=%s", partition, consent))
		}
	}
	slices.Sort(words)
	if err := annotateLocked(ctx, s, l.topic, v1alpha1.AnnotationAcceptDataLoss,
		strings.Join(words, " ")); err != nil {
		return err
	}
	if s.json() {
		return printJSON(s.out, map[string]any{"partition": l.name(), "accepted": l.problem.Consent})
	}
	_, err := fmt.Fprintf(s.out, "Partition %s: accepted; the operator elects a leader\n", l.name())
	return err
}
