package main

import (
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/terminal"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/vfs"
)

// logCommand returns the group of offline tools. dump and verify (internal/logstore/inspect) only
// read files, so they can run while a broker uses these files. clean changes files, so it first
// locks the data directory.
func logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Inspect, verify or clean logs on disk, without a broker",
		Long: `Inspect, verify or clean logs on disk, without a broker. Logs of Apache Kafka work as well.

A PATH is a file (.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint), a
partition's directory, a data directory, or the directory of heartwood dev.`,
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(logDumpCommand(), logVerifyCommand(), logCleanCommand())
	return cmd
}

func logDumpCommand() *cobra.Command {
	var opts inspect.DumpOptions
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Print the batches and records of logs",
		Long: `Print the batches of logs and, with --records, their records.

For a directory the command prints its data files. It prints an index, a transaction index, a
producer snapshot or the leader epochs if the PATH is such a file. Corrupt batches are printed with
their error. With --json each line is an object that names its file.`,
		Example: `  heartwood log dump --records heartwood-data/broker-0/tickets-0
  heartwood log dump --records --from 1200 --to 1300 /var/lib/heartwood/data/tickets-0
  heartwood log dump --json /var/lib/heartwood/data/tickets-0 | jq 'select(.producerId >= 0)'
  heartwood log dump /var/lib/heartwood/data/tickets-0/00000000000000001200.txnindex`,
		Args: someArgs,
	}
	quiet := addQuiet(cmd)
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		opts.Done = new(atomic.Int64)
		// On a terminal, the output itself shows the progress.
		hidden := *quiet || terminal.Is(cmd.OutOrStdout())
		defer showProgress(cmd, hidden, "lines", -1, opts.Done)()
		return inspect.Dump(vfs.OS{}, paths, opts, cmd.OutOrStdout())
	}
	cmd.Flags().BoolVar(&opts.Records, "records", false, "print each record as well")
	cmd.Flags().Int64Var(&opts.From, "from", 0, "first offset; batches that end below are omitted")
	cmd.Flags().Int64Var(&opts.To, "to", 0,
		"end offset; batches that start at or above it are omitted; 0: no end")
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print one JSON object per line")
	return cmd
}

// logVerifyCommand returns the command that prints the problems of logs to standard output. If
// there are any problems, the command also returns an error, which results in exit code 1.
func logVerifyCommand() *cobra.Command {
	var opts inspect.VerifyOptions
	cmd := &cobra.Command{
		Use:   "verify PATH...",
		Short: "Verify logs: checksums, offsets, records, indexes, producers",
		Long: `Verify logs and the files next to them:

  - the checksum, offsets and records of each batch, and that segments are contiguous;
  - that index entries point to the right batches, and that transaction indexes list the aborted
    transactions;
  - that producer epochs never decrease, that cleaning explains the gaps between sequence numbers,
    and that transaction markers are valid;
  - that producer snapshots, leader epochs and key sidecars agree with the batches.

Each problem is printed with its file, position and offset; the last line is a summary. Harmless
findings, such as files that a broker removes or rebuilds when it starts, are printed as notes. The
exit code is 0 if there are no problems, 1 if there are problems, and 2 if the command line is
invalid. The end of a log that a broker is writing may look truncated. If a running or killed broker
has not written some index entries, the missing entries are printed as notes:
recovery-point-offset-checkpoint contains the offset up to which indexes are complete.`,
		Example: `  heartwood log verify /var/lib/heartwood/data
  heartwood log verify --json /var/lib/heartwood/data/tickets-0 | jq 'select(.problem)'`,
		Args: someArgs,
	}
	quiet := addQuiet(cmd)
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		end := showProgress(cmd, *quiet, "", -1, new(atomic.Int64))
		defer end()
		problems, err := inspect.Verify(vfs.OS{}, paths, opts, cmd.OutOrStdout())
		if err == nil && problems > 0 {
			err = fmt.Errorf("%d problems found", problems)
		}
		return err
	}
	cmd.Flags().BoolVar(&opts.JSON, "json", false, "print one JSON object per line")
	return cmd
}
