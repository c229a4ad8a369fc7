package main

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/logappend"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/compress"
)

// benchAppendCommand returns the command that runs internal/bench/logappend once.
func benchAppendCommand() *cobra.Command {
	opts := logappend.Options{Level: compress.LevelDefault}
	codec, sent, asJSON := "", "", false
	cmd := &cobra.Command{
		Use:   "append",
		Short: "Measure appending batches to a log, compressing them and reading them back",
		Long: `Measure appending batches to a log, compressing them and reading them back.

Records are tickets of a help desk as JSON, generated from a seed so that runs are comparable. The
batches are appended to a log on disk as for a produce request: validated, recompressed if --codec
differs from --sent, and indexed. Then the log is read, decompressed and parsed. The log is removed
at the end.

Bytes are counted before compression. The CPU time is the user and system time of the process,
including the sync of the log, but not the generation of the batches. docs/use/compression.md
contains results for every codec and level; docs/internals/bench/append.md compares them with Apache
Kafka.`,
		Example: `  heartwood bench append --codec zstd --level 3 --batch-bytes 65536 --record-bytes 1000 \
    --records 500000
  heartwood bench append --codec lz4 --sent lz4    # no recompression`,
		Args: usage.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&codec, "codec", "none", "codec of the topic: none, gzip, snappy, lz4 or zstd")
	level := flags.Int("level", 0, "compression level of --codec (default: the codec's own)")
	flags.StringVar(&sent, "sent", "none", "codec of the batches before they are appended")
	flags.IntVar(&opts.BatchBytes, "batch-bytes", 64<<10,
		"uncompressed bytes of records per batch")
	flags.IntVar(&opts.RecordBytes, "record-bytes", 1000, "bytes of a record's key and value")
	flags.IntVar(&opts.Records, "records", 500_000,
		"number of records, rounded up to whole batches")
	flags.Uint64Var(&opts.Seed, "seed", 1, "seed of the records")
	flags.BoolVar(&opts.Letters, "letters", false,
		"use records of random capital letters without a key, as in Kafka's benchmarks")
	flags.StringVar(&opts.Dir, "dir", "",
		"`DIR` create a temporary directory for the log here (default: $TMPDIR or /tmp)")
	flags.DurationVar(&opts.Flush, "flush", time.Second, "interval at which the log is synced to disk")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	quiet := addQuiet(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var failed [2]error
		opts.Codec, failed[0] = compress.ParseCodec(codec)
		opts.Sent, failed[1] = compress.ParseCodec(sent)
		if flags.Changed("level") {
			opts.Level = *level
		}
		err := errors.Join(failed[0], failed[1])
		if err == nil {
			err = opts.Validate()
		}
		if err != nil {
			return usage.Misused(cmd, err)
		}
		opts.Done = new(atomic.Int64)
		end := showProgress(cmd, *quiet, "records", opts.Expected(), opts.Done)
		defer end()
		result, err := logappend.Run(cmd.Context(), opts)
		if err != nil {
			return err
		}
		end()
		return result.Print(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}
