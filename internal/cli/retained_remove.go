package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/metadata"
)

func removeRetainedCommand(f *flags) *cobra.Command {
	var account account
	name, wait := "", false
	cmd := &cobra.Command{
		Use:   "remove TOPIC",
		Short: "Remove the retained records of a deleted topic for good",
		Long: `Remove the retained records of a deleted topic for good.

The command shows the topic id, the size and the number of records, and asks for the name of the
topic. It then sets the annotation heartwood.dev/remove-retained of the LogCluster. The consent
holds for the records of this topic id: if the Topic is created again before the removal begins,
the records are kept.

A broker that is down deletes the records when it returns. Until all brokers have done so, the
partitions of a new Topic of that name are not assigned; then they are empty. With --wait, Ctrl-C
ends the command, but not the removal.`,
		Example: `  kubectl heartwood retained remove tickets --wait`,
		Args:    exactArgs("one TOPIC"),
	}
	account.add(cmd)
	cmd.Flags().StringVar(&name, "name", "",
		"`TOPIC` repeat the name of the topic here, instead of being asked for it")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all brokers have deleted the records")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.run(func(ctx context.Context, s *session, args []string) error {
			r, err := s.removal(ctx, args[0], account)
			if err != nil {
				return err
			}
			if err := r.print(s); err != nil {
				return err
			}
			if err := r.confirm(s, name, cmd.InOrStdin()); err != nil {
				return err
			}
			return r.request(ctx, s, wait)
		})(cmd, args)
	}
	return cmd
}

// removal is a deleted topic whose retained records the user wants to remove.
type removal struct {
	cluster *v1alpha1.LogCluster
	name    string
	topics  []retainedTopic // topics with this name and different topic ids
	notes   *retained
}

// removal reads a topic's retained records. It reads the LogCluster before the records. The consent
// is written only if the LogCluster has not changed since then, so it applies only to records that
// the user has seen.
func (s *session) removal(ctx context.Context, name string, account account) (*removal, error) {
	cluster, err := s.logCluster(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.retained(ctx, cluster, account)
	if err != nil {
		return nil, err
	}
	r := &removal{cluster: cluster, name: name, notes: all}
	for _, topic := range all.Topics {
		if topic.Topic == name {
			r.topics = append(r.topics, topic)
		}
	}
	if len(r.topics) == 0 {
		return nil, fmt.Errorf("LogCluster %s has no retained records of a deleted topic %s: "+
			"'kubectl heartwood retained' lists them", cluster.Name, name)
	}
	topics, err := s.topicsOf(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(topics, func(t v1alpha1.Topic) bool { return t.Name == name }) {
		return nil, fmt.Errorf("topic %s exists again: its records are not removed", name)
	}
	return r, nil
}

// print prints what will be removed.
func (r *removal) print(s *session) error {
	out := s.planOut()
	_, _ = fmt.Fprintf(out, "The retained records of the deleted topic %s of LogCluster %s:\n", r.name,
		r.cluster.Name)
	if err := retainedTable(r.topics).print(out, "  "); err != nil {
		return err
	}
	r.notes.printNotes(s)
	_, err := fmt.Fprintf(out, "\nThe brokers delete these records for good. Without this, a new "+
		"Topic %s would continue with them.\n", r.name)
	return err
}

// confirm asks the user to enter the topic's name, unless the flag contains it.
func (r *removal) confirm(s *session, name string, in io.Reader) error {
	if name == "" {
		if !terminal.Is(in) {
			return usage.New(errors.New("standard input is not a terminal: give the name of the topic " +
				"again with --name"))
		}
		_, _ = fmt.Fprint(s.errOut, "Type the name of the topic to remove its records: ")
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the name: %w", err)
		}
		name = strings.TrimSpace(line)
	}
	if name != r.name {
		return errNotConfirmed
	}
	return nil
}

// request adds the consents to the annotation; consents for other topics remain. If wait is set, it
// waits for the removal.
func (r *removal) request(ctx context.Context, s *session, wait bool) error {
	words := strings.Fields(r.cluster.Annotations[v1alpha1.AnnotationRemoveRetained])
	for _, topic := range r.topics {
		words = append(words, v1alpha1.GivenUp{Topic: topic.Topic, ID: topic.ID}.String())
	}
	slices.Sort(words)
	if err := annotateLocked(ctx, s, r.cluster, v1alpha1.AnnotationRemoveRetained,
		strings.Join(slices.Compact(words), " ")); err != nil {
		return err
	}
	if wait {
		if err := r.wait(ctx, s); err != nil {
			return err
		}
	}
	if s.json() {
		return printJSON(s.out, map[string]any{"topics": r.topics, "removed": wait})
	}
	result := "requested; 'kubectl heartwood retained' shows the progress"
	if wait {
		result = "the retained records are removed"
	}
	_, err := fmt.Fprintf(s.out, "Topic %s: %s\n", r.name, result)
	return err
}

// wait waits until no records of the topic ids are retained. It returns an error if the operator
// keeps the records because the Topic was created again.
func (r *removal) wait(ctx context.Context, s *session) error {
	for began := false; ; {
		cluster := &v1alpha1.LogCluster{}
		if err := s.get(ctx, "LogCluster", r.cluster.Name, cluster); err != nil {
			return err
		}
		partitions, err := s.retainedPartitions(ctx, r.cluster.Name)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(partitions, func(p metadata.RetainedPartition) bool {
			return !slices.ContainsFunc(r.topics,
				func(t retainedTopic) bool { return t.Topic == p.Topic && t.ID == p.Tag })
		})
		began = began || slices.ContainsFunc(left,
			func(p metadata.RetainedPartition) bool { return p.Removing })
		if len(left) == 0 {
			return r.verify(ctx, s, began)
		}
		// The operator removes a consent if the removal has begun or the records are kept.
		if !began && !slices.ContainsFunc(cluster.GivenUp(),
			func(g v1alpha1.GivenUp) bool { return g.Topic == r.name }) {
			return fmt.Errorf("the operator has kept the records of topic %s: see the events of "+
				"LogCluster %s", r.name, cluster.Name)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchInterval):
		}
	}
}

// verify returns an error if the records may no longer be retained because a new Topic continues
// with them. began reports whether their removal has been observed.
func (r *removal) verify(ctx context.Context, s *session, began bool) error {
	topics, err := s.topicsOf(ctx, r.cluster.Name)
	if err != nil || began {
		return err
	}
	if slices.ContainsFunc(topics, func(t v1alpha1.Topic) bool { return t.Name == r.name }) {
		return fmt.Errorf("topic %s was created again at the same time, and may continue with the "+
			"records: see the events of LogCluster %s", r.name, r.cluster.Name)
	}
	return nil
}
