package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/cli/usage"
)

func pauseCommand(f *flags) *cobra.Command {
	return pausing(f, &cobra.Command{
		Use:   "pause",
		Short: "Pause changes and restarts of a LogCluster",
		Long: `Pause a LogCluster: the operator does not change its objects and restarts no broker.

Leaders are still elected, Topics are still assigned, and certificates are still renewed.
'kubectl heartwood resume' ends the pause.`,
		Args: usage.NoArgs,
	}, true)
}

func resumeCommand(f *flags) *cobra.Command {
	return pausing(f, &cobra.Command{
		Use:   "resume",
		Short: "End the pause of a LogCluster",
		Args:  usage.NoArgs,
	}, false)
}

// pausing sets up the command pause or resume.
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
