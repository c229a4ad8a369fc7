package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/vfs"
)

// logCommand holds the offline tools. dump and verify (internal/logstore/inspect) only read, so a
// broker may be at work on the same files; clean takes the data directory's lock.
func logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into logs on disk, or clean them, without a broker",
		Long: `Look into logs on disk, or clean them, without a broker: ours, and those that Apache Kafka wrote.

A PATH is a file (.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint), a partition's directory, a data
directory, or the directory of heartwood dev.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(logDumpCommand(), logVerifyCommand(), logCleanCommand())
	return cmd
}

func logDumpCommand() *cobra.Command {
	var opts inspect.DumpOptions
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Print the batches, and on demand the records, of logs",
		Long: `Print the batches, and on demand the records, of logs.

Of a directory its data files are printed. An index, a transaction index, a producer snapshot or the leader epochs are printed
when they are named. Bad batches are printed with what is wrong with them. With --json each line is an object that names its file.`,
		Example: `  heartwood log dump --records heartwood-data/broker-0/tickets-0
  heartwood log dump --records --from 1200 --to 1300 /var/lib/heartwood/data/tickets-0
  heartwood log dump --json /var/lib/heartwood/data/tickets-0 | jq 'select(.producerId >= 0)'
  heartwood log dump /var/lib/heartwood/data/tickets-0/00000000000000001200.txnindex`,
		Args: someArgs,
		RunE: func(cmd *cobra.Command, paths []string) error {
			return inspect.Dump(vfs.OS{}, paths, opts, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&opts.Records, "records", false, "print each record, too")
	cmd.Flags().Int64Var(&opts.From, "from", 0, "first offset: batches that end below are left out")
	cmd.Flags().Int64Var(&opts.To, "to", 0,
		"end: batches that begin at this offset or above are left out; 0: none are")
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print one JSON object a line")
	return cmd
}

// logVerifyCommand makes an error of problems found, for the exit code alone: they have been
// printed by then.
func logVerifyCommand() *cobra.Command {
	var opts inspect.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Check logs: checksums, offsets, records, indexes, producers",
		Long: `Check logs, and what lies beside them:

  - each batch's checksum, offsets and records, and that the segments follow one another;
  - that each entry of the indexes points at the right batch, and that the transaction indexes tell of the aborted transactions;
  - the rules of producers: epochs never fall, sequences go on, and leap no farther than cleaning explains; markers;
  - that producer snapshots, the leader epochs and the key sidecars tell what the batches do.

What is wrong is printed with its file, position and offset, the first fault first; the last line sums up. What is only worth
knowing, such as files that a start will remove, is printed as a note. The exit code is 0 if nothing is wrong, 1 if something
is, 2 if the command line is wrong. The end of a log that a broker is writing may look cut off. What a broker that runs, or was killed,
has not written to an index yet is a note: its recovery-point-offset-checkpoint tells up to where indexes are complete.`,
		Example: `  heartwood log verify /var/lib/heartwood/data
  heartwood log verify --json /var/lib/heartwood/data/tickets-0 | jq 'select(.problem)'`,
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
