package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/client"
	"heartwood.dev/heartwood/internal/cli/usage"
)

// compareHelp is the part of the help text shared by bench produce and bench consume.
const compareHelp = `
The command measures any cluster that speaks the Kafka protocol, Heartwood or Apache Kafka. A run
ends after --records or --duration, whichever comes first. The CPU time is that of the client
process. docs/internals/bench/README.md describes how to compare.`

// targetFlags adds the flags shared by bench produce and bench consume.
func targetFlags(cmd *cobra.Command, to *client.Target) (asJSON, quiet *bool) {
	flags := cmd.Flags()
	flags.StringSliceVar(&to.Bootstrap, "bootstrap", []string{"127.0.0.1:9092"},
		"`HOST:PORT,...` brokers of the cluster")
	flags.StringVar(&to.Topic, "topic", "heartwood-bench", "topic to measure")
	flags.StringVar(&to.Security.CAFile, "ca-file", "",
		"`FILE` connect with TLS, and verify brokers by these CAs (PEM)")
	flags.StringVar(&to.Security.User, "user", "", "authenticate by SCRAM-SHA-512")
	flags.StringVar(&to.Security.PasswordFile, "password-file", "", "`FILE` password of --user")
	return flags.Bool("json", false, "print one JSON object"), addQuiet(cmd)
}

// benchProduceCommand returns the command that measures producing with internal/bench/client.
func benchProduceCommand() *cobra.Command {
	opts := client.ProduceOptions{}
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Measure producing to a topic of Heartwood or Kafka",
		Long: `Measure producing to a topic: records per second, latency, failures, and CPU time of the client.

Records are tickets of a help desk as JSON, generated from a seed so that runs are comparable.
Latency starts at the time at which a record is due, and ends at its acknowledgement. With --rate
the due times are evenly spaced, so the latency includes the time that a record waits for earlier
records when the broker stalls. Without --rate a record is due when it is sent, and the latency is
mostly the time in the client's buffer: set a rate to measure latency. Each record contains its due
time, from which bench consume computes the end-to-end latency.

With --transaction or --transaction-records each producer has a transactional id. It commits its
records when that time has passed since the transaction began, or after that number of records, and
sends the next record after the commit. The latency of a commit is measured from the last record of
the transaction to the response.` + "\n" + compareHelp,
		Example: `  heartwood bench produce --records 1000000 --record-bytes 1000 --acks all --codec zstd
  heartwood bench produce --bootstrap kafka:9092 --rate 20000 --duration 30s --json
  heartwood bench produce --rate 20000 --duration 30s --transaction 10ms`,
		Args: usage.NoArgs,
	}
	asJSON, quiet := targetFlags(cmd, &opts.Target)
	flags := cmd.Flags()
	flags.DurationVar(&opts.Transaction, "transaction", 0,
		"commit the records of a producer each time that this time has passed; 0: no transactions")
	flags.Int64Var(&opts.TransactionRecords, "transaction-records", 0,
		"commit after this number of records; 0: no transactions")
	flags.BoolVar(&opts.Create, "create", true, "create the topic if it does not exist")
	flags.IntVar(&opts.Partitions, "partitions", 6, "partitions of a created topic")
	flags.Int64Var(&opts.Records, "records", 1_000_000, "records to send")
	flags.DurationVar(&opts.Duration, "duration", time.Minute, "time after which sending stops")
	flags.IntVar(&opts.RecordBytes, "record-bytes", 1000, "bytes of a record's key and value")
	flags.IntVar(&opts.Rate, "rate", 0,
		"records per second of all producers together; 0: as fast as possible")
	flags.StringVar(&opts.Acks, "acks", "all", "acknowledgments: 0, 1 or all (idempotent)")
	flags.StringVar(&opts.Codec, "codec", "none", "compression: none, gzip, snappy, lz4 or zstd")
	flags.IntVar(&opts.BatchBytes, "batch-bytes", 256<<10, "maximum bytes of a batch")
	flags.DurationVar(&opts.Linger, "linger", 5*time.Millisecond,
		"time that a batch waits for more records")
	flags.IntVar(&opts.Producers, "producers", 1,
		"number of clients, each with its own connections")
	flags.Uint64Var(&opts.Seed, "seed", 1, "seed of the records")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return measured(cmd, *asJSON, opts.Validate(),
			func(ctx context.Context) (*client.Result, error) {
				opts.Done = new(atomic.Int64)
				end := showProgress(cmd, *quiet, "records", opts.Expected(), opts.Done)
				defer end()
				return client.Produce(ctx, opts)
			})
	}
	return cmd
}

// benchConsumeCommand returns the command that measures consuming with internal/bench/client.
func benchConsumeCommand() *cobra.Command {
	opts := client.ConsumeOptions{}
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Measure consuming a topic of Heartwood or Kafka",
		Long: `Measure consuming a topic: records per second and CPU time of the client.

The run reads the records that the topic contains when the run starts, and then ends. With --latest
the run reads the records that are produced after it has started. For records of a concurrent bench
produce it measures the end-to-end latency: from the time at which a record was due until it was
read. This requires that the clocks of the two machines are synchronized.

The run uses no consumer group: the partitions are distributed among --consumers.` + "\n" + compareHelp,
		Example: `  heartwood bench consume
  heartwood bench consume --latest --duration 30s &
  heartwood bench produce --rate 20000 --duration 25s`,
		Args: usage.NoArgs,
	}
	asJSON, quiet := targetFlags(cmd, &opts.Target)
	flags := cmd.Flags()
	flags.BoolVar(&opts.Latest, "latest", false, "read only records produced from now on")
	flags.Int64Var(&opts.Records, "records", 0, "maximum number of records to read; 0: no limit")
	flags.DurationVar(&opts.Duration, "duration", time.Minute, "time after which reading stops")
	flags.IntVar(&opts.Consumers, "consumers", 1,
		"number of clients, each with its own connections; at most one per partition")
	flags.DurationVar(&opts.MaxWait, "max-wait", 500*time.Millisecond,
		"maximum time that a fetch waits for records")
	flags.IntVar(&opts.MaxBytes, "max-bytes", 50<<20, "maximum bytes of a fetch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return measured(cmd, *asJSON, opts.Validate(),
			func(ctx context.Context) (*client.Result, error) {
				opts.Done = new(atomic.Int64)
				end := showProgress(cmd, *quiet, "records", -1, opts.Done)
				defer end()
				return client.Consume(ctx, opts)
			})
	}
	return cmd
}

// measured runs a measurement and prints the result. If any record failed, it returns an error,
// which results in exit code 1.
func measured(cmd *cobra.Command, asJSON bool, invalid error,
	run func(context.Context) (*client.Result, error)) error {
	if invalid != nil {
		return usage.Misused(cmd, invalid)
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
