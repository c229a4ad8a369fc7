package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/operator/render"
)

// logsFlags contains the flags of command logs.
type logsFlags struct {
	follow, previous bool
	since            time.Duration
	last             int64
	brokers          []int32
}

func logsCommand(f *flags) *cobra.Command {
	l := &logsFlags{}
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Print the logs of all brokers, each line with the broker's id",
		Example: `  kubectl heartwood logs --since 10m
  kubectl heartwood logs --broker 2 --previous`,
		Args: usage.NoArgs,
	}
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "print further lines until Ctrl-C")
	cmd.Flags().BoolVar(&l.previous, "previous", false, "print the logs of the previous containers")
	cmd.Flags().DurationVar(&l.since, "since", 0, "print only lines that are not older")
	cmd.Flags().Int64Var(&l.last, "last", 100, "`NUMBER` print the last lines of each broker; -1: all")
	cmd.Flags().Int32SliceVar(&l.brokers, "broker", nil,
		"`ID` print only the log of this broker; repeatable")
	cmd.Flags().Lookup("broker").DefValue = ""
	cmd.RunE = f.run(l.run)
	return cmd
}

// brokerLog returns the options for requesting a broker's log. They contain the name of the
// container, because a webhook may have added other containers to the pod, and the API server then
// refuses requests without a container name.
func brokerLog(previous bool) *corev1.PodLogOptions {
	return &corev1.PodLogOptions{Container: render.ContainerName, Previous: previous}
}

// options returns the options for requesting a pod's log.
func (l *logsFlags) options() *corev1.PodLogOptions {
	o := brokerLog(l.previous)
	o.Follow = l.follow
	if l.last >= 0 {
		o.TailLines = &l.last
	}
	if l.since > 0 {
		o.SinceSeconds = new(max(1, int64(l.since.Seconds())))
	}
	return o
}

func (l *logsFlags) run(ctx context.Context, s *session, _ []string) error {
	cluster, err := s.logCluster(ctx)
	if err != nil {
		return err
	}
	ids := connect.BrokerIDs(cluster)
	for _, id := range l.brokers {
		if !slices.Contains(ids, id) {
			return fmt.Errorf("LogCluster %s has no broker %d", cluster.Name, id)
		}
	}
	if len(l.brokers) > 0 {
		ids = sortedPartitions(l.brokers)
	}
	return l.copyAll(ctx, s, cluster, ids)
}

// copyAll prints the logs of several brokers.
func (l *logsFlags) copyAll(ctx context.Context, s *session, cluster *v1alpha1.LogCluster,
	ids []int32) error {
	pods, err := corev1client.NewForConfig(s.config)
	if err != nil {
		return err
	}
	lines := &lineWriter{out: s.out, json: s.json()}
	copyLog := func(id int32) error {
		name := v1alpha1.BrokerLeaseName(cluster.Name, id)
		stream, err := pods.Pods(s.namespace).GetLogs(name, l.options()).Stream(ctx)
		if err != nil {
			return fmt.Errorf("read the log of pod %s: %w", name, err)
		}
		defer func() { _ = stream.Close() }()
		return lines.copy(id, stream)
	}
	errs := make([]error, len(ids))
	if !l.follow { // one broker after the other, so that the lines of a broker stay together
		for i, id := range ids {
			errs[i] = copyLog(id)
		}
		return errors.Join(errs...)
	}
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { errs[i] = copyLog(id) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Ctrl-C is the end of the command
	}
	return errors.Join(errs...)
}

// lineWriter writes the lines of several brokers. It is safe for concurrent use.
type lineWriter struct {
	mu   sync.Mutex
	out  io.Writer
	json bool
}

// copy writes each line of a log, preceded by the broker's id.
func (w *lineWriter) copy(id int32, from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := w.write(id, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *lineWriter) write(id int32, line string) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line = line[:len(line)-lineEnd(line)]
	if w.json {
		return printLine(w.out, map[string]any{"broker": id, "line": line})
	}
	_, err = fmt.Fprintf(w.out, "[%d] %s\n", id, printable(line))
	return err
}

// lineEnd returns the length of the line break at the end of line.
func lineEnd(line string) int {
	if line != "" && line[len(line)-1] == '\n' {
		return 1
	}
	return 0
}
