package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/client"
)

// compareHelp is what both commands say of their figures.
const compareHelp = `
It needs nothing of Heartwood: --bootstrap may be any broker that speaks the Kafka protocol, so that the same command measures both.
A run is bounded by --records and --duration, whichever is first. The processor's time is that of this process, the client.
docs/bench/README.md says how to compare.`

// targetFlags are those of both commands.
func targetFlags(cmd *cobra.Command, to *client.Target) (asJSON *bool) {
	flags := cmd.Flags()
	flags.StringSliceVar(&to.Bootstrap, "bootstrap", []string{"127.0.0.1:9092"},
		"`HOST:PORT` of brokers of the cluster, by commas")
	flags.StringVar(&to.Topic, "topic", "heartwood-bench", "topic that is measured")
	return flags.Bool("json", false, "print one JSON object")
}

// benchProduceCommand runs internal/bench/client once.
func benchProduceCommand() *cobra.Command {
	opts := client.ProduceOptions{}
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Measure producing to a topic, of Heartwood or of Kafka",
		Long: `Measure producing to a topic: records a second, latency from due to acknowledged, what failed, and the client's processor time.

Records are tickets of a help desk as JSON, made from a seed, so that runs compare; each carries the time it was due, for bench consume.
With --rate a record is due by the clock, and a broker that stalls makes the records behind it late, too. Without, it is due when its
turn comes, and latency is mostly the wait in the client's own buffer: give a rate to measure latency.` + "\n" + compareHelp,
		Example: `  heartwood bench produce --records 1000000 --record-bytes 1000 --acks all --codec zstd
  heartwood bench produce --bootstrap kafka:9092 --rate 20000 --duration 30s --json`,
		Args: noArgs,
	}
	asJSON := targetFlags(cmd, &opts.Target)
	flags := cmd.Flags()
	flags.BoolVar(&opts.Create, "create", true, "make the topic when it is absent")
	flags.IntVar(&opts.Partitions, "partitions", 6, "partitions of a topic that is made")
	flags.Int64Var(&opts.Records, "records", 1_000_000, "records to send")
	flags.DurationVar(&opts.Duration, "duration", time.Minute, "time after which no more are sent")
	flags.IntVar(&opts.RecordBytes, "record-bytes", 1000, "bytes of a record's key and value")
	flags.IntVar(&opts.Rate, "rate", 0,
		"records a second, of all producers together; 0: as fast as possible")
	flags.StringVar(&opts.Acks, "acks", "all", "acknowledgments: 0, 1 or all (idempotent)")
	flags.StringVar(&opts.Codec, "codec", "none", "compression: none, gzip, snappy, lz4 or zstd")
	flags.IntVar(&opts.BatchBytes, "batch-bytes", 256<<10, "bytes of a batch, at most")
	flags.DurationVar(&opts.Linger, "linger", 5*time.Millisecond,
		"how long a batch waits for more records")
	flags.IntVar(&opts.Producers, "producers", 1, "clients, each with its own connections")
	flags.Uint64Var(&opts.Seed, "seed", 1, "of the records")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return measured(cmd, *asJSON, opts.Validate(),
			func(ctx context.Context) (*client.Result, error) { return client.Produce(ctx, opts) })
	}
	return cmd
}

// benchConsumeCommand runs internal/bench/client once.
func benchConsumeCommand() *cobra.Command {
	opts := client.ConsumeOptions{}
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Measure consuming a topic, of Heartwood or of Kafka",
		Long: `Measure consuming a topic: records a second and the client's processor time.

It reads what the topic holds when it begins, then ends. With --latest it reads what comes from then on. Of records that bench produce
sent meanwhile it tells the latency from end to end: from due to read. The clocks of the two machines must agree for that.

It is in no consumer group: partitions are dealt out among --consumers.` + "\n" + compareHelp,
		Example: `  heartwood bench consume
  heartwood bench consume --latest --duration 30s & heartwood bench produce --rate 20000 --duration 25s`,
		Args: noArgs,
	}
	asJSON := targetFlags(cmd, &opts.Target)
	flags := cmd.Flags()
	flags.BoolVar(&opts.Latest, "latest", false, "read only what comes from now on")
	flags.Int64Var(&opts.Records, "records", 0, "records to read; 0: no limit")
	flags.DurationVar(&opts.Duration, "duration", time.Minute, "time after which no more are read")
	flags.IntVar(&opts.Consumers, "consumers", 1,
		"clients, each with its own connections; no more than partitions")
	flags.DurationVar(&opts.MaxWait, "max-wait", 500*time.Millisecond,
		"how long a fetch may wait for records")
	flags.IntVar(&opts.MaxBytes, "max-bytes", 50<<20, "bytes of a fetch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return measured(cmd, *asJSON, opts.Validate(),
			func(ctx context.Context) (*client.Result, error) { return client.Consume(ctx, opts) })
	}
	return cmd
}

// measured runs a measurement and prints it, also where records failed; then the exit code says so.
func measured(cmd *cobra.Command, asJSON bool, wrong error,
	run func(context.Context) (*client.Result, error)) error {
	if wrong != nil {
		return misused(cmd, wrong)
	}
	result, err := run(cmd.Context())
	if err != nil {
		return err
	}
	if err := result.Print(cmd.OutOrStdout(), asJSON); err != nil {
		return err
	}
	return result.Err()
}
