package main

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/purgatory"
	"heartwood.dev/heartwood/internal/cli/usage"
)

// benchPurgatoryCommand returns the command that runs internal/bench/purgatory once.
func benchPurgatoryCommand() *cobra.Command {
	opts := purgatory.Options{}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "purgatory",
		Short: "Measure adding, completing and expiring delayed operations",
		Long: `Measure the purgatory, in which requests wait until they complete or time out.

Requests arrive at exponentially distributed intervals. The time to completion is log-normally
distributed: another goroutine completes the request after this time, unless the request times out
earlier. The purgatory of Apache Kafka was measured in the same way when its timing wheels were
introduced; docs/internals/bench/purgatory.md compares the two.

The results cover the whole process, including the load generator. --kind baseline measures only
the load generator.`,
		Example: "  heartwood bench purgatory --rate 105000 --pct50 200ms --pct75 400ms",
		Args:    usage.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.Kind, "kind", "purgatory",
		"subject of the measurement: "+strings.Join(purgatory.Kinds(), " or "))
	flags.IntVar(&opts.Requests, "requests", 1_000_000, "number of requests")
	flags.IntVar(&opts.Rate, "rate", 0, "requests per second on average; 0: as fast as possible")
	flags.DurationVar(&opts.Timeout, "timeout", 200*time.Millisecond, "timeout of each request")
	flags.DurationVar(&opts.Median, "pct50", 20*time.Millisecond,
		"50th percentile of the time to completion")
	flags.DurationVar(&opts.Quartile, "pct75", 60*time.Millisecond,
		"75th percentile of the time to completion")
	flags.IntVar(&opts.Size, "size", 100, "bytes of data in each request")
	flags.IntVar(&opts.Keys, "keys", 3, "keys watched by each request")
	flags.IntVar(&opts.OfKeys, "of-keys", 100,
		"number of keys from which the keys of each request are chosen")
	flags.Uint64Var(&opts.Seed, "seed", 1, "seed of the random times")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	quiet := addQuiet(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := opts.Validate(); err != nil {
			return usage.Misused(cmd, err)
		}
		opts.Done = new(atomic.Int64)
		end := showProgress(cmd, *quiet, "requests", int64(opts.Requests), opts.Done)
		defer end()
		result, err := purgatory.Run(cmd.Context(), opts)
		if err != nil {
			return err
		}
		end()
		return result.Print(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}
