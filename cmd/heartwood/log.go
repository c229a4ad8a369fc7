package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/vfs"
)

// logCommand holds the offline tools, internal/logstore/inspect. They only read, so a broker may be at work on the same
// files.
func logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into logs on disk, without a broker",
		Long: `Look into logs on disk, without a broker: ours, and those that Apache Kafka wrote.

A PATH is a file (.log, .index, .timeindex), a partition's directory, a data directory, or the directory of heartwood dev.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(logDumpCommand(), logVerifyCommand())
	return cmd
}

func logDumpCommand() *cobra.Command {
	var opts inspect.DumpOptions
	cmd := &cobra.Command{
		Use:     "dump PATH...",
		Short:   "Print the batches, and on demand the records, of logs",
		Example: "  heartwood log dump --records heartwood-data/broker-0/tickets-0",
		Args:    someArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return inspect.Dump(vfs.OS{}, paths, opts, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&opts.Records, "records", false, "print each record, too")
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print one JSON object a line")
	return cmd
}

// logVerifyCommand makes an error of problems found, for the exit code alone: they have been printed by then.
func logVerifyCommand() *cobra.Command {
	var opts inspect.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Check logs: checksums, offsets, records, indexes",
		Long: `Check logs: checksums, offsets, records, and whether the indexes point at the right batches.

What is wrong is printed with its file and position; the last line sums up. The exit code is 0 if nothing is wrong, 1 if
something is, 2 if the command line is wrong. The end of a log that a broker is writing may look cut off.`,
		Args: someArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			problems, err := inspect.Verify(vfs.OS{}, paths, opts, cmd.OutOrStdout())
			if err == nil && problems > 0 {
				err = fmt.Errorf("%d problems found", problems)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print one JSON object a line")
	return cmd
}
