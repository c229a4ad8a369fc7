package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console/connect"
)

func restartCommand(f *flags) *cobra.Command {
	var consent consent
	var brokers []int32
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Restart all brokers one after the other, or one of them",
		Long: `Restart all brokers of a LogCluster one after the other, or with --broker some of them.

The operator restarts a broker only while every partition keeps enough in-sync replicas without it.
'kubectl heartwood status' shows the progress (condition RollingOut).`,
		Example: `  kubectl heartwood restart
  kubectl heartwood restart --broker 2`,
		Args: usage.NoArgs,
	}
	consent.add(cmd)
	cmd.Flags().Int32SliceVar(&brokers, "broker", nil,
		"`ID` restart only this broker; repeatable")
	cmd.Flags().Lookup("broker").DefValue = ""
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		if len(brokers) > 0 {
			return s.restartBrokers(ctx, cluster, &consent, brokers)
		}
		steps := []string{fmt.Sprintf("set annotation %s of LogCluster %s: the operator restarts "+
			"its %d brokers one after the other", v1alpha1.AnnotationRestart, cluster.Name,
			cluster.Spec.Brokers)}
		if cluster.Paused() {
			steps = append(steps, pausedStep)
		}
		if confirmed, err := consent.confirm(s, steps...); !confirmed {
			return err
		}
		if err := annotate(ctx, s, cluster, v1alpha1.AnnotationRestart, stamp()); err != nil {
			return err
		}
		return consent.done(s, steps, "LogCluster "+cluster.Name+": requested; kubectl heartwood "+
			"status shows the progress")
	})
	return cmd
}

// pausedStep is the only step of each plan while the LogCluster is paused.
const pausedStep = "the LogCluster is paused: nothing happens before kubectl heartwood resume"

// restartBrokers requests a restart of the given brokers.
func (s *session) restartBrokers(ctx context.Context, cluster *v1alpha1.LogCluster,
	consent *consent, brokers []int32) error {
	var pods []*corev1.Pod
	var steps []string
	for _, id := range sortedPartitions(brokers) {
		if !slices.Contains(connect.BrokerIDs(cluster), id) {
			return fmt.Errorf("LogCluster %s has no broker %d", cluster.Name, id)
		}
		pod := &corev1.Pod{}
		name := v1alpha1.BrokerLeaseName(cluster.Name, id)
		if err := s.get(ctx, "Pod", name, pod); err != nil {
			return err
		}
		pods = append(pods, pod)
		steps = append(steps, fmt.Sprintf("set annotation %s of pod %s: the operator restarts "+
			"broker %d", v1alpha1.AnnotationRestart, name, id))
	}
	if cluster.Paused() {
		steps = append(steps, pausedStep)
	}
	if confirmed, err := consent.confirm(s, steps...); !confirmed {
		return err
	}
	for _, pod := range pods {
		if err := annotate(ctx, s, pod, v1alpha1.AnnotationRestart, stamp()); err != nil {
			return err
		}
	}
	return consent.done(s, steps, "LogCluster "+cluster.Name+": requested; kubectl heartwood "+
		"status shows the progress")
}

func approveCommand(f *flags) *cobra.Command {
	var consent consent
	cmd := &cobra.Command{
		Use:   "approve",
		Short: "Approve the rolling update that waits",
		Long: `Approve the rolling update of a LogCluster to the latest pod template.

It is needed with spec.rollout.policy OnApproval. A later change of the pod template needs another
approval. With spec.rollout.window, the restarts begin in the window.`,
		Args: usage.NoArgs,
	}
	consent.add(cmd)
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		revision := cluster.Status.UpdateRevision
		outdated := outdatedBrokers(cluster)
		switch {
		case !cluster.Spec.Rollout.NeedsApproval():
			return consent.done(s, []string{}, "LogCluster "+cluster.Name+": no approval is needed")
		case revision == "" || cluster.Status.ObservedGeneration < cluster.Generation &&
			!cluster.Paused():
			return fmt.Errorf("the operator has not applied the latest spec of LogCluster %s yet: "+
				"try again", cluster.Name)
		case len(outdated) == 0 || cluster.RolloutApproved(revision):
			return consent.done(s, []string{}, "LogCluster "+cluster.Name+": no approval is needed")
		}
		steps := []string{fmt.Sprintf("set annotation %s=%s of LogCluster %s: the operator restarts "+
			"brokers %v one after the other", v1alpha1.AnnotationApproveRollout, revision,
			cluster.Name, outdated)}
		if w := cluster.Spec.Rollout.Window; w != nil {
			steps = append(steps, fmt.Sprintf("brokers are restarted from %s to %s UTC", w.Start,
				w.End))
		}
		if cluster.Paused() {
			steps = append(steps, pausedStep)
		}
		if confirmed, err := consent.confirm(s, steps...); !confirmed {
			return err
		}
		err = annotate(ctx, s, cluster, v1alpha1.AnnotationApproveRollout, revision)
		if err != nil {
			return err
		}
		return consent.done(s, steps, "LogCluster "+cluster.Name+": approved; kubectl heartwood "+
			"status shows the progress")
	})
	return cmd
}

// outdatedBrokers returns the ids of the brokers that must be restarted.
func outdatedBrokers(cluster *v1alpha1.LogCluster) (ids []int32) {
	for i := range cluster.Status.Brokers {
		if b := &cluster.Status.Brokers[i]; b.RestartReason != "" {
			ids = append(ids, b.ID)
		}
	}
	return ids
}
