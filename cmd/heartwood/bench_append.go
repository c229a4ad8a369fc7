package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/bench/logappend"
	"heartwood.dev/heartwood/internal/compress"
)

// benchAppendCommand runs internal/bench/logappend once.
func benchAppendCommand() *cobra.Command {
	opts := logappend.Options{Level: compress.LevelDefault}
	codec, sent, asJSON := "", "", false
	cmd := &cobra.Command{
		Use:   "append",
		Short: "Measure how a log appends batches, compresses them and reads them back",
		Long: `Measure how a log appends batches, compresses them and reads them back.

Records are tickets of a help desk as JSON, made from a seed, so that runs compare. Their batches are appended to a log on disk as a
produce appends them: checked, compressed again where --codec is not what they were sent in, indexed. Then all of it is read,
decompressed and parsed. The log is removed at the end.

Bytes are counted before compression. The processor's time is that of the whole process, user and system, the sync of the log
included; making the batches is not. docs/compression.md has the figures of every codec and level, docs/bench/append.md puts them
next to Apache Kafka's.`,
		Example: `  heartwood bench append --codec zstd --level 3 --batch-bytes 65536 --record-bytes 1000 --records 500000
  heartwood bench append --codec lz4 --sent lz4    # what the producer compressed stays as it is`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&codec, "codec", "none", "codec of the topic: none, gzip, snappy, lz4 or zstd")
	level := flags.Int("level", 0, "compression level of --codec (default: the codec's own)")
	flags.StringVar(&sent, "sent", "none", "codec that the batches come in")
	flags.IntVar(&opts.BatchBytes, "batch-bytes", 64<<10,
		"bytes of records in a batch, uncompressed")
	flags.IntVar(&opts.RecordBytes, "record-bytes", 1000, "bytes of a record's key and value")
	flags.IntVar(&opts.Records, "records", 500_000, "how many records, rounded up to whole batches")
	flags.Uint64Var(&opts.Seed, "seed", 1, "of the records")
	flags.BoolVar(&opts.Letters, "letters", false,
		"records are random capital letters without a key, as in Kafka's benchmarks, and not JSON")
	flags.StringVar(&opts.Dir, "dir", "",
		"directory to make the log's own in (default: that for temporary files)")
	flags.DurationVar(&opts.Flush, "flush", time.Second, "how often the log is synced")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
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
			return misused(cmd, err)
		}
		result, err := logappend.Run(cmd.Context(), opts)
		if err != nil {
			return err
		}
		return result.Print(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}
