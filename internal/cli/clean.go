package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func cleanCommand(f *flags) *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use:   "clean TOPIC",
		Short: "Clean a topic now, regardless of its dirty ratio",
		Long: `Make the brokers clean all replicas of a topic now, regardless of its dirty ratio.

The command sets the annotation heartwood.dev/clean-now of the Topic. The cleaner's limits for
workers, memory and I/O apply, and so do compaction.minLag and the retention of tombstones.
Producers and consumers are not interrupted. docs/use/cleaning.md describes such a pass.

With --wait, Ctrl-C ends the command, but not the cleaning. The command fails if the cleaner is
disabled (spec.cleaner.workers 0).`,
		Example: `  kubectl heartwood clean tickets --wait`,
		Args:    exactArgs("one TOPIC"),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every replica is clean")
	cmd.RunE = f.run(func(ctx context.Context, s *session, args []string) error {
		topic, err := s.topic(ctx, args[0])
		if err != nil {
			return err
		}
		if topic.Status.Compaction == nil {
			return fmt.Errorf("topic %s is not compacted, or its brokers have not reported yet",
				topic.Name)
		}
		value := "kubectl-" + time.Now().UTC().Format("20060102T150405.000Z")
		if err := annotate(ctx, s, topic, v1alpha1.AnnotationCleanNow, value); err != nil {
			return err
		}
		if !wait {
			if s.json() {
				return printJSON(s.out, map[string]string{"topic": topic.Name, "value": value})
			}
			_, err := fmt.Fprintf(s.out, "%s: requested; kubectl heartwood top shows the progress\n",
				topic.Name)
			return err
		}
		return s.awaitClean(ctx, topic.Name, value)
	})
	return cmd
}

// awaitClean waits until the Topic's status shows that every replica was cleaned.
func (s *session) awaitClean(ctx context.Context, name, value string) error {
	printed := ""
	for {
		topic := &v1alpha1.Topic{}
		if err := s.get(ctx, "Topic", name, topic); err != nil {
			return err
		}
		if topic.CleanNow() != value {
			return fmt.Errorf("wait for topic %s: another clean was requested", name)
		}
		now := cleanNowOf(topic, value)
		if now.State == v1alpha1.CleanNowPending {
			if err := s.cleanerEnabled(ctx, topic); err != nil {
				return fmt.Errorf("wait for topic %s: %w", name, err)
			}
		}
		if line := now.line(name); line != printed && !s.json() {
			printed = line
			_, _ = fmt.Fprintln(s.out, line)
		}
		if now.State == v1alpha1.CleanNowDone || now.State == v1alpha1.CleanNowFailed {
			return s.cleaned(name, now)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cleaning of %s, which continues: %w", name, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// cleanerEnabled returns an error if the brokers report that the cleaner is disabled. It returns
// nil if the LogCluster has cleaner workers: the report is then older than the configuration.
func (s *session) cleanerEnabled(ctx context.Context, topic *v1alpha1.Topic) error {
	reported := meta.FindStatusCondition(topic.Status.Conditions, v1alpha1.ConditionCompacting)
	if reported == nil || reported.Reason != v1alpha1.ReasonCleanerDisabled {
		return nil
	}
	cluster := &v1alpha1.LogCluster{}
	if err := s.get(ctx, "LogCluster", topic.Spec.Cluster, cluster); err != nil {
		return err
	}
	c := cluster.Spec.Cleaner
	if c == nil || c.Workers == nil || *c.Workers > 0 {
		return nil
	}
	return fmt.Errorf("the cleaner of LogCluster %s is disabled: set spec.cleaner.workers to 1 or "+
		"more; the request remains", cluster.Name)
}

// cleaned prints the result of a clean. It returns an error if a pass has failed.
func (s *session) cleaned(name string, now *cleanNow) error {
	if s.json() {
		if err := printJSON(s.out, now); err != nil {
			return err
		}
	}
	if now.State == v1alpha1.CleanNowFailed {
		return fmt.Errorf("a pass of topic %s has failed and is retried: kubectl heartwood why %s",
			name, name)
	}
	return nil
}

// cleanNow is the state of a requested clean. It is also the JSON output.
type cleanNow struct {
	Topic    string                 `json:"topic"`
	Value    string                 `json:"value"`
	State    v1alpha1.CleanNowState `json:"state"`
	Replicas string                 `json:"replicas,omitempty"`
	Finished *metav1.Time           `json:"finished,omitempty"`
	Phase    string                 `json:"-"`
}

// cleanNowOf returns the state of the clean that was requested with the given annotation value. The
// state is Pending until the operator reports this value.
func cleanNowOf(topic *v1alpha1.Topic, value string) *cleanNow {
	now := &cleanNow{Topic: topic.Name, Value: value, State: v1alpha1.CleanNowPending}
	c := topic.Status.Compaction
	if c == nil || c.CleanNow == nil || c.CleanNow.Value != value {
		return now
	}
	now.State, now.Replicas, now.Finished = c.CleanNow.State, c.CleanNow.Replicas,
		c.CleanNow.CompletionTime
	if now.State == v1alpha1.CleanNowRunning {
		now.Phase = c.Phase
	}
	return now
}

// line returns a description of the state in one line.
func (c *cleanNow) line(name string) string {
	line := name + ": " + strings.ToLower(string(c.State))
	if c.Phase != "" {
		line += ", " + strings.ToLower(c.Phase)
	}
	if c.Replicas != "" {
		line += ", " + c.Replicas + " replicas cleaned"
	}
	return line
}
