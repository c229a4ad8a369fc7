package main

import (
	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/plan"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// planCommand is internal/plan on the command line.
func planCommand() *cobra.Command {
	standard := topicconfig.Default()
	in := plan.Input{
		HotShare: 1, DirtyRatio: float64(standard.MinDirtyPercent) / 100,
		GarbageShare: float64(standard.MaxGarbagePercent) / 100,
	}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "plan --keys COUNT --record-size SIZE",
		Short: "Work out what a compacted topic needs: disk, I/O, memory, time",
		Long: `Work out what a compacted topic needs: disk, I/O, memory, time.

It is arithmetic and measures nothing: every key is there, each update replaces a record of the same size, and the cleaner works as
docs/cleaner.md says. Keys and rates are those of the whole topic. docs/plan.md has the formulas and an example.

A COUNT or SIZE is written as in manifests: 300, 1.6G (decimal), 5Ki (binary). A RATE may end with /s.`,
		Example: `  heartwood plan --keys 1.6G --record-size 5k --compression-ratio 4 --update-rate 300/s \
    --max-garbage-percent 0 --partitions 8 --replicas 3 --brokers 9 --republish-rate 43k/s --io-rate 200M/s --kafka-buffer 128Mi`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "keys", "record-size"); err != nil {
				return err
			}
			p, err := plan.Make(in)
			if err != nil {
				return misused(cmd, err)
			}
			return p.Print(cmd.OutOrStdout(), asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Var(quantity(&in.Keys, countKind, ""), "keys", "keys that have a value")
	flags.Var(quantity(&in.RecordBytes, sizeKind, ""), "record-size",
		"key and value of a record, before compression")
	flags.Var(quantity(&in.CompressionRatio, countKind, "1"), "compression-ratio",
		"bytes before compression / bytes after")
	flags.Var(quantity(&in.BatchRecords, countKind, "10"), "batch-records", "records in a batch")
	flags.Var(quantity(&in.UpdateRate, rateKind, "0"), "update-rate",
		"records a second that replace others")
	flags.Var(percentFlag{&in.HotShare}, "hot-keys",
		"share of the keys that get all updates; 100: all alike, the worst case")
	flags.BoolVar(&in.Tombstones, "tombstones", false, "some of the updates are deletes")
	flags.IntVar(&in.Partitions, "partitions", 1, "partitions of the topic")
	flags.IntVar(&in.Replicas, "replicas", 1, "copies of each partition")
	flags.IntVar(&in.Brokers, "brokers", 0,
		"brokers that share them (default: as many as replicas)")
	flags.Var(percentFlag{&in.DirtyRatio}, "min-dirty-percent", "a pass is due above it")
	flags.Var(percentFlag{&in.GarbageShare}, "max-garbage-percent",
		"garbage that a pass may leave, to save I/O")
	flags.Var(quantity(&in.SegmentBytes, sizeKind, "1Gi"), "segment-size", "of the topic")
	flags.Var(quantity(&in.MemoryBytes, sizeKind, "128Mi"), "memory", "of a broker's cleaner")
	flags.IntVar(&in.Workers, "workers", 1, "of a broker's cleaner")
	flags.Var(quantity(&in.IORate, rateKind, "0"), "io-rate",
		"of a broker's cleaner, bytes read and written a second; 0: no limit")
	flags.Var(quantity(&in.RepublishRate, rateKind, "0"), "republish-rate",
		"how fast producers write every key once more, records a second")
	flags.Var(quantity(&in.KafkaBufferBytes, sizeKind, "0"), "kafka-buffer",
		"compare with Apache Kafka's cleaner, with a dedupe buffer of so many bytes a thread")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
