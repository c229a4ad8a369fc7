package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/health"
	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
)

// watchInterval is the time between two outputs of --watch.
const watchInterval = 2 * time.Second

func statusCommand(f *flags) *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of a LogCluster, what is wrong, and what to do next",
		Long: `Show the last or present rebalance, the certificate that expires first, the conditions and the
brokers of a LogCluster, everything that is not as its resources request it, the worst first, and
what to do next.

The exit code is 3 if a finding is critical or a warning: clients are refused, data is at risk,
somebody should act, or there is less redundancy than the resources request. Work in progress, such
as a rolling update, is reported as info.`,
		Args: usage.NoArgs,
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "repeat every 2 s until Ctrl-C")
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		return s.repeat(ctx, watch, func(out io.Writer) error {
			status, err := s.status(ctx)
			if err != nil {
				return err
			}
			if err := s.printStatus(out, status); err != nil {
				return err
			}
			s.printUnread()
			if health.Degraded(status.Findings) {
				return ErrDegraded
			}
			return nil
		})
	})
	return cmd
}

// status is the output of command status.
type status struct {
	Cluster                   string             `json:"cluster"`
	Namespace                 string             `json:"namespace"`
	Degraded                  bool               `json:"degraded"`
	Bootstrap                 string             `json:"bootstrap"`
	Topics                    int32              `json:"topics"`
	Partitions                int32              `json:"partitions"`
	UnderReplicatedPartitions int32              `json:"underReplicatedPartitions"`
	Conditions                []metav1.Condition `json:"conditions"`
	Brokers                   []broker           `json:"brokers"`
	Findings                  []health.Finding   `json:"findings"`
	// RetainedTopics contains up to 20 deleted topics whose records are retained.
	RetainedTopics []v1alpha1.RetainedTopic `json:"retainedTopics,omitempty"`
	// Rebalance is the current or last rebalance run; absent until the operator has written it.
	Rebalance *v1alpha1.RebalanceStatus `json:"rebalance,omitempty"`
	// NextCertificateExpiry describes the certificate that expires first; absent without TLS.
	NextCertificateExpiry *v1alpha1.CertificateExpiry `json:"nextCertificateExpiry,omitempty"`
}

// status reads the state of the LogCluster.
func (s *session) status(ctx context.Context) (*status, error) {
	s.unread = nil
	cluster, err := s.logCluster(ctx)
	if err != nil {
		return nil, err
	}
	in := health.Input{Cluster: cluster, Now: time.Now()}
	if in.Topics, err = s.topicsOf(ctx, cluster.Name); err != nil {
		return nil, err
	}
	if in.Users, err = s.usersOf(ctx, cluster.Name); err != nil {
		return nil, err
	}
	if in.Pods, err = s.podsOf(ctx, cluster.Name); err != nil {
		return nil, err
	}
	findings := health.Findings(in)
	if findings == nil {
		findings = []health.Finding{}
	}
	return &status{Cluster: cluster.Name, Namespace: s.namespace,
		Degraded: health.Degraded(findings), Bootstrap: cluster.Status.Bootstrap,
		Topics: cluster.Status.Topics, Partitions: cluster.Status.Partitions,
		UnderReplicatedPartitions: cluster.Status.UnderReplicatedPartitions,
		Conditions:                sortedConditions(cluster.Status.Conditions),
		Brokers:                   brokersOf(cluster, in.Pods), Findings: findings,
		RetainedTopics: cluster.Status.RetainedTopics, Rebalance: cluster.Status.Rebalance,
		NextCertificateExpiry: cluster.Status.NextCertificateExpiry}, nil
}

// sortedConditions returns the conditions sorted by type, with Ready first. Their order in the
// resource differs between LogClusters, because the operator appends each condition when it first
// sets it.
func sortedConditions(conditions []metav1.Condition) []metav1.Condition {
	rank := func(c metav1.Condition) string {
		if c.Type == v1alpha1.ConditionReady {
			return ""
		}
		return c.Type
	}
	return slices.SortedFunc(slices.Values(conditions), func(a, b metav1.Condition) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

// usersOf returns the LogUsers of a LogCluster, or nil if the user may not list them.
func (s *session) usersOf(ctx context.Context, cluster string) ([]v1alpha1.LogUser, error) {
	list := &v1alpha1.LogUserList{}
	if may, err := s.optional(ctx, "LogUsers", list); !may {
		return nil, err
	}
	return slices.DeleteFunc(list.Items,
		func(u v1alpha1.LogUser) bool { return u.Spec.Cluster != cluster }), nil
}

// podsOf returns the brokers' pods, or nil if the user may not list them.
func (s *session) podsOf(ctx context.Context, cluster string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	may, err := s.optional(ctx, "Pods", list, client.MatchingLabels{v1alpha1.LabelCluster: cluster})
	if !may {
		return nil, err
	}
	pods := append([]corev1.Pod{}, list.Items...) // not nil, even if the list is empty
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

func (s *session) printStatus(out io.Writer, st *status) error {
	if s.json() {
		return printJSON(out, st)
	}
	state := "healthy"
	if st.Degraded {
		state = "degraded"
	}
	_, _ = fmt.Fprintf(out, "LogCluster %s in namespace %s: %s\n", st.Cluster, st.Namespace, state)
	_, _ = fmt.Fprintf(out, "Topics: %d, partitions: %d, under-replicated: %d\n", st.Topics,
		st.Partitions, st.UnderReplicatedPartitions)
	_, _ = fmt.Fprintf(out, "Bootstrap: %s\n", cmp.Or(st.Bootstrap, "-"))
	printProgress(out, st, time.Now())
	_, _ = fmt.Fprintln(out)
	conditions := newTable("CONDITION STATUS REASON MESSAGE")
	for _, c := range st.Conditions {
		conditions.add(c.Type, string(c.Status), c.Reason, c.Message)
	}
	if err := conditions.print(out, ""); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	if err := printBrokers(out, st.Brokers); err != nil {
		return err
	}
	for _, r := range st.RetainedTopics {
		if !r.Removing {
			_, _ = fmt.Fprintf(out, "\nRetained: %d partitions of the deleted topic %s. To remove their "+
				"records: %s\n", r.Partitions, r.Topic, r.Command)
		}
	}
	if len(st.Findings) == 0 {
		_, err := fmt.Fprintln(out, "\nNothing to do.")
		return err
	}
	printFindings(out, st.Findings)
	return nil
}

// printFindings prints findings, if there are any.
func printFindings(out io.Writer, findings []health.Finding) {
	if len(findings) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out, "\nFindings, the worst first:")
	for _, f := range findings {
		_, _ = fmt.Fprintf(out, "  %s: %s: %s: %s\n", f.Severity, f.Subject, f.Reason,
			printable(f.Message))
		if f.Next != "" {
			_, _ = fmt.Fprintf(out, "    next: %s\n", f.Next)
		}
		if text := f.Caused(); text != "" {
			_, _ = fmt.Fprintf(out, "    consequences: %s\n", printable(text))
		}
	}
}

// repeat calls show once or, if watch is set, repeatedly until ctx ends. On a terminal each output
// replaces the previous one.
func (s *session) repeat(ctx context.Context, watch bool, show func(io.Writer) error) error {
	for {
		if watch && terminal.Is(s.out) {
			_, _ = fmt.Fprint(s.out, "\x1b[H\x1b[2J\x1b[3J")
		}
		err := show(s.out)
		if !watch {
			return err
		}
		if err != nil && ctx.Err() == nil && err != ErrDegraded { //nolint:errorlint // not wrapped
			_, _ = fmt.Fprintln(s.errOut, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchInterval):
		}
	}
}
