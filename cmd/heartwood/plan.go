package main

import (
	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/plan"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// planCommand returns the command that runs internal/plan.
func planCommand() *cobra.Command {
	defaults := topicconfig.Default()
	in := plan.Input{
		HotShare: 1, DirtyRatio: defaults.MinDirtyPercent / 100,
		GarbageShare: float64(defaults.MaxGarbagePercent) / 100,
	}
	asJSON := false
	cmd := &cobra.Command{
		Use:   "plan --keys COUNT --record-size SIZE",
		Short: "Estimate the disk, I/O, memory and time of a compacted topic",
		Long: `Estimate the disk, I/O, memory and time of a compacted topic.

The command only calculates; it does not measure anything. It assumes that every key has a record,
that each update replaces a record of the same size, and that the cleaner works as described in
docs/internals/cleaner.md. Keys and rates are those of the whole topic. docs/operate/sizing.md
contains the formulas and an example.

A COUNT or SIZE is a Kubernetes quantity: 300, 1.6G (decimal), 5Ki (binary). A RATE may end with /s.`,
		Example: `  heartwood plan --keys 1.6G --record-size 5k --compression-ratio 4 --update-rate 300/s \
    --max-garbage-percent 0 --partitions 8 --replicas 3 --brokers 9 --republish-rate 43k/s \
    --io-rate 200M/s --kafka-buffer 128Mi`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := required(cmd, "keys", "record-size"); err != nil {
				return err
			}
			p, err := plan.Make(in)
			if err != nil {
				return usage.Misused(cmd, err)
			}
			return p.Print(cmd.OutOrStdout(), asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Var(quantity(&in.Keys, countKind, ""), "keys", "number of keys with a value")
	flags.Var(quantity(&in.RecordBytes, sizeKind, ""), "record-size",
		"size of a record's key and value before compression")
	flags.Var(quantity(&in.CompressionRatio, countKind, "1"), "compression-ratio",
		"size before compression divided by size after it")
	flags.Var(quantity(&in.BatchRecords, countKind, "10"), "batch-records", "records per batch")
	flags.Var(quantity(&in.UpdateRate, rateKind, "0"), "update-rate",
		"updates of existing keys per second")
	flags.Var(percentFlag{&in.HotShare}, "hot-keys",
		"percentage of the keys that are ever updated; 100 is the worst case")
	flags.BoolVar(&in.Tombstones, "tombstones", false, "assume that some updates are deletes")
	flags.IntVar(&in.Partitions, "partitions", 1, "number of partitions")
	flags.IntVar(&in.Replicas, "replicas", 1, "replicas of each partition")
	flags.IntVar(&in.Brokers, "brokers", 0,
		"number of brokers (default: the number of replicas)")
	flags.Var(percentFlag{&in.DirtyRatio}, "min-dirty-percent",
		"dirty ratio above which a pass is due")
	flags.Var(percentFlag{&in.GarbageShare}, "max-garbage-percent",
		"maximum share of garbage in the clean section after a pass; more saves I/O")
	flags.Var(quantity(&in.SegmentBytes, sizeKind, "1Gi"), "segment-size",
		"segment size of the topic")
	flags.Var(quantity(&in.MemoryBytes, sizeKind, "128Mi"), "memory",
		"memory of a broker's cleaner")
	flags.IntVar(&in.Workers, "workers", 1, "workers of a broker's cleaner")
	flags.Var(quantity(&in.IORate, rateKind, "0"), "io-rate",
		"bytes that a broker's cleaner reads and writes per second; 0: no limit")
	flags.Var(quantity(&in.RepublishRate, rateKind, "0"), "republish-rate",
		"records per second while producers write every key again; 0: no estimate of this case")
	flags.Var(quantity(&in.KafkaBufferBytes, sizeKind, "0"), "kafka-buffer",
		"size of the dedupe buffer per thread of an Apache Kafka cleaner to compare with; 0: no "+
			"comparison")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
