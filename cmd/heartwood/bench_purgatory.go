package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/purgatory"
)

// benchPurgatoryCommand runs internal/bench/purgatory once.
func benchPurgatoryCommand() *cobra.Command {
	opts := purgatory.Options{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "purgatory",
		Short: "Measure how waiting requests are kept, completed and timed out",
		Long: `Measure the purgatory, in which requests wait to be completed or to time out.

Requests arrive at exponentially distributed intervals. Each would complete after a log-normally distributed time, and is
then completed by another goroutine, unless that is longer than the timeout. It is the benchmark by which Kafka's purgatory
was measured when it got its timing wheels; docs/bench/purgatory.md compares.

The times are those of the whole process, the load generator included: --kind baseline measures the load alone.`,
		Example: "  heartwood bench purgatory --rate 105000 --pct50 200ms --pct75 400ms",
		Args:    noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Kind, "kind", "purgatory",
		"what is measured: "+strings.Join(purgatory.Kinds(), ", "))
	flags.IntVar(&opts.Requests, "requests", 1_000_000, "how many requests")
	flags.IntVar(&opts.Rate, "rate", 0, "requests a second on average; 0: as fast as possible")
	flags.DurationVar(&opts.Timeout, "timeout", 200*time.Millisecond, "of each request")
	flags.DurationVar(&opts.Median, "pct50", 20*time.Millisecond,
		"50th percentile of the times to completion")
	flags.DurationVar(&opts.Quartile, "pct75", 60*time.Millisecond,
		"75th percentile of the times to completion")
	flags.IntVar(&opts.Size, "size", 100, "bytes that each request carries")
	flags.IntVar(&opts.Keys, "keys", 3, "keys that each request watches")
	flags.IntVar(&opts.OfKeys, "of-keys", 100, "keys there are")
	flags.Uint64Var(&opts.Seed, "seed", 1, "of the random times")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := opts.Validate(); err != nil {
			return misused(cmd, err)
		}
		result, err := purgatory.Run(cmd.Context(), opts)
		if err != nil {
			return err
		}
		return result.Print(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}
