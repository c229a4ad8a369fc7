package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
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
		Args: noArgs,
	}
	consent.add(cmd)
	cmd.Flags().Int32SliceVar(&brokers, "broker", nil,
		"`ID` of a broker; may be given several times (default: all)")
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

// pausedStep is the step of a plan for a LogCluster that is paused.
const pausedStep = "the LogCluster is paused: nothing happens before kubectl heartwood resume"

// restartBrokers requests the restart of single brokers.
func (s *session) restartBrokers(ctx context.Context, cluster *v1alpha1.LogCluster,
	consent *consent, brokers []int32) error {
	var pods []*corev1.Pod
	var steps []string
	for _, id := range sortedPartitions(brokers) {
		if !slices.Contains(brokerIDs(cluster), id) {
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

func pauseCommand(f *flags) *cobra.Command {
	return pausing(f, &cobra.Command{
		Use:   "pause",
		Short: "Pause changes and restarts of a LogCluster",
		Long: `Pause a LogCluster: the operator does not change its objects and restarts no broker.

Leaders are still elected, Topics are still assigned, and certificates are still renewed.
'kubectl heartwood resume' ends the pause.`,
		Args: noArgs,
	}, true)
}

func resumeCommand(f *flags) *cobra.Command {
	return pausing(f, &cobra.Command{
		Use:   "resume",
		Short: "End the pause of a LogCluster",
		Args:  noArgs,
	}, false)
}

// pausing completes the commands pause and resume.
func pausing(f *flags, cmd *cobra.Command, pause bool) *cobra.Command {
	var consent consent
	consent.add(cmd)
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		if cluster.Paused() == pause {
			return consent.done(s, []string{}, "LogCluster "+cluster.Name+": unchanged")
		}
		steps := []string{fmt.Sprintf("set annotation %s=true of LogCluster %s: the operator does "+
			"not change its objects and restarts no broker", v1alpha1.AnnotationPaused,
			cluster.Name)}
		if !pause {
			steps[0] = fmt.Sprintf("remove annotation %s of LogCluster %s: the operator applies the "+
				"spec again, which may restart brokers", v1alpha1.AnnotationPaused, cluster.Name)
		}
		if confirmed, err := consent.confirm(s, steps...); !confirmed {
			return err
		}
		err = patch(ctx, s, cluster, func(c *v1alpha1.LogCluster) {
			if !pause {
				delete(c.Annotations, v1alpha1.AnnotationPaused)
				return
			}
			if c.Annotations == nil {
				c.Annotations = map[string]string{}
			}
			c.Annotations[v1alpha1.AnnotationPaused] = "true"
		})
		if err != nil {
			return err
		}
		result := "resumed"
		if pause {
			result = "paused"
		}
		return consent.done(s, steps, "LogCluster "+cluster.Name+": "+result)
	})
	return cmd
}
