package main

import (
	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
)

// benchCommand returns the group of subcommands that run the benchmarks of internal/bench.
func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a cluster through its clients, or single parts of the broker",
		Args:  usage.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchProduceCommand(), benchConsumeCommand(), benchAppendCommand(),
		benchPurgatoryCommand())
	return cmd
}
