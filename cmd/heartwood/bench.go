package main

import "github.com/spf13/cobra"

// benchCommand holds the benchmarks of internal/bench: clusters measured from outside, and parts of
// the broker by themselves.
func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a cluster from outside, or parts of the broker by themselves",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchProduceCommand(), benchConsumeCommand(), benchAppendCommand(),
		benchPurgatoryCommand())
	return cmd
}
