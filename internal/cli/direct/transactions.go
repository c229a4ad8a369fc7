package direct

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

// transactionsFlags contains the flags that all subcommands of transactions share.
type transactionsFlags struct {
	Addresses
	asJSON bool
}

// print prints value as JSON if the flag is set, and otherwise with the function table.
func (f *transactionsFlags) print(cmd *cobra.Command, value any,
	table func(io.Writer) error) error {
	if f.asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(value)
	}
	return table(cmd.OutOrStdout())
}

// transactions requests the transactions that match the parameters.
func (f *transactionsFlags) transactions(cmd *cobra.Command, states []string,
	olderThan time.Duration) (all *remote.Transactions, err error) {
	client, err := f.Client(cmd)
	if err != nil {
		return nil, err
	}
	err = f.ask(func(names []string) (err error) {
		all, err = client.Transactions(cmd.Context(), names, states, olderThan)
		return err
	})
	return all, err
}

func transactionsCommand() *cobra.Command {
	flags := &transactionsFlags{}
	list := transactionsListCommand(flags)
	cmd := &cobra.Command{
		Use:   "transactions",
		Short: "Show and abort transactions",
		Long: `Show the transactional ids of producers and the state of their transactions, and abort
transactions. Without a subcommand it lists them.

The command asks one broker over HTTP, and the other brokers at the same port on the hosts that the
response contains. If a broker cannot be reached, the command shows what it has received, and fails.
On Kubernetes, run the command in a pod:
  kubectl exec demo-broker-0 -- heartwood transactions`,
		Args: usage.NoArgs,
		RunE: list.RunE,
	}
	cmd.Flags().AddFlagSet(list.Flags())
	flags.Add(cmd)
	cmd.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object")
	for _, sub := range []*cobra.Command{list, transactionsDescribeCommand(flags),
		transactionsHangingCommand(flags), transactionsAbortCommand(flags)} {
		flags.Add(sub)
		sub.Flags().BoolVar(&flags.asJSON, "json", false, "print one JSON object")
		cmd.AddCommand(sub)
	}
	return cmd
}

func transactionsListCommand(flags *transactionsFlags) *cobra.Command {
	var states []string
	var olderThan time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List transactional ids",
		Long: `List transactional ids, one per line, sorted by id.

COORDINATOR is the broker that coordinates the id. STATE is Ongoing for an open transaction,
PrepareCommit or PrepareAbort while its outcome is written to its partitions, and Empty,
CompleteCommit or CompleteAbort without an open transaction. OPEN is the time since the transaction
began. ENDS-IN is the time after which the coordinator aborts it. If the leaders of partitions have
found hanging transactions, a last line says so.`,
		Example: `  heartwood transactions --state Ongoing --older-than 1m
  heartwood transactions list --json | jq '.transactionalIds[].transactionalId'`,
		Args: usage.NoArgs,
	}
	cmd.Flags().StringSliceVar(&states, "state", nil,
		"`STATE,...` list only ids in these states (default all)")
	cmd.Flags().DurationVar(&olderThan, "older-than", 0,
		"list only transactions that have been open for at least that long")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := flags.transactions(cmd, states, olderThan)
		if err != nil {
			return err
		}
		return errors.Join(flags.print(cmd, all.Transactions, func(out io.Writer) error {
			return errors.Join(remote.PrintTransactions(out, all.TransactionalIDs, time.Now()),
				remote.PrintHangingCount(out, all.Open))
		}), all.Complete())
	}
	return cmd
}

func transactionsDescribeCommand(flags *transactionsFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "describe TRANSACTIONAL-ID",
		Short: "Show the transaction of one transactional id",
		Long: `Show the state of a transactional id and its last transaction.

PARTITIONS are the partitions of an open transaction. UNMARKED is the number of them that have not
written the outcome yet.`,
		Args: oneTransactionalID,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := flags.transactions(cmd, nil, 0)
			if err != nil {
				return err
			}
			found, err := all.Find(args[0])
			if err != nil {
				return errors.Join(err, all.Complete())
			}
			return flags.print(cmd, found, func(out io.Writer) error {
				return remote.PrintTransaction(out, found)
			})
		},
	}
}

func transactionsHangingCommand(flags *transactionsFlags) *cobra.Command {
	var olderThan time.Duration
	cmd := &cobra.Command{
		Use:   "find-hanging",
		Short: "Find transactions that no coordinator will end",
		Long: `Find open transactions in the logs of partitions that no transaction coordinator knows.

No timeout ends such a transaction. Until it is aborted, consumers with isolation.level
read_committed receive no record after FIRST-OFFSET, and the cleaner removes none. Brokers verify
each transaction, so one hangs only in a log that was written elsewhere, or if the records of
__transaction_state are lost.`,
		Example: `  heartwood transactions find-hanging
  heartwood transactions abort --topic orders --partition 3 --first-offset 1042`,
		Args: usage.NoArgs,
	}
	cmd.Flags().DurationVar(&olderThan, "older-than", 0,
		"consider transactions that have been open for at least that long (default: the longest\n"+
			"timeout that a producer may ask for)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := flags.transactions(cmd, report.OpenStates, 0)
		if err == nil {
			err = all.Complete()
		}
		if err != nil {
			return err
		}
		if olderThan == 0 {
			olderThan = all.TimeoutMax()
		}
		now, hanging := time.Now(), []report.OpenTransaction{}
		for _, open := range all.Hanging() {
			if now.Sub(time.UnixMilli(int64(open.Since*1000))) >= olderThan {
				hanging = append(hanging, open)
			}
		}
		return flags.print(cmd, map[string]any{"open": hanging}, func(out io.Writer) error {
			return remote.PrintOpen(out, hanging, now)
		})
	}
	return cmd
}

func transactionsAbortCommand(flags *transactionsFlags) *cobra.Command {
	var key report.TopicPartition
	firstOffset := int64(-1)
	cmd := &cobra.Command{
		Use:   "abort {ID | --topic TOPIC --partition N --first-offset N}",
		Short: "Abort a transaction",
		Long: `Abort the open transaction of a transactional id, in all its partitions. Its producer is fenced:
its next request fails, and a new instance of the application can begin.

With --topic, --partition and --first-offset it aborts a hanging transaction in one partition. It
refuses that for a transaction that a coordinator knows.`,
		Example: `  heartwood transactions abort payments-7
  heartwood transactions abort --topic orders --partition 3 --first-offset 1042`,
		Args: atMostOneTransactionalID,
	}
	cmd.Flags().StringVar(&key.Topic, "topic", "", "topic of a hanging transaction")
	cmd.Flags().Int32Var(&key.Partition, "partition", 0, "partition of a hanging transaction")
	cmd.Flags().Int64Var(&firstOffset, "first-offset", -1,
		"offset at which the hanging transaction begins")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		hanging := key.Topic != ""
		if hanging == (len(args) == 1) || hanging != (firstOffset >= 0) {
			return usage.Misused(cmd, errors.New(
				"give a transactional id, or --topic, --partition and --first-offset"))
		}
		client, err := flags.Client(cmd)
		if err != nil {
			return err
		}
		var answer report.Aborted
		if err := flags.ask(func(names []string) (err error) {
			if hanging {
				answer, err = client.AbortHanging(cmd.Context(), names, key, firstOffset)
			} else {
				answer, err = client.AbortTransaction(cmd.Context(), names, args[0])
			}
			return err
		}); err != nil {
			return err
		}
		return flags.print(cmd, answer, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, "aborted")
			return err
		})
	}
	return cmd
}

func oneTransactionalID(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage.Misused(cmd, errors.New("give one transactional id"))
	}
	return nil
}

func atMostOneTransactionalID(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage.Misused(cmd, errors.New("give one transactional id"))
	}
	return nil
}
