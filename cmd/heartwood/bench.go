package main

import "github.com/spf13/cobra"

// benchCommand holds the benchmarks of internal/bench: parts of the broker measured by themselves.
func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure parts of the broker by themselves, on this machine",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchAppendCommand(), benchPurgatoryCommand())
	return cmd
}
