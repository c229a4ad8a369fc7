package remote

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// PrintTransactions writes a table with one line for each transactional id. Parameter now is the
// current time on the reader's machine.
func PrintTransactions(out io.Writer, all []report.TransactionalID, now time.Time) error {
	return printTable(out, "TRANSACTIONAL-ID COORDINATOR STATE PRODUCER EPOCH PARTITIONS OPEN ENDS-IN",
		all, func(t report.TransactionalID) []string {
			open, ends := "-", "-"
			if t.IsOpen() && t.Since != nil {
				open = age(now.Sub(at(*t.Since)))
			}
			if t.Until != nil {
				ends = age(at(*t.Until).Sub(now))
			}
			return []string{t.TransactionalID, strconv.Itoa(int(t.Coordinator)), t.State,
				strconv.FormatInt(t.ProducerID, 10), strconv.Itoa(int(t.Epoch)),
				strconv.Itoa(len(t.Partitions)), open, ends}
		})
}

// PrintTransaction writes the state of one transactional id, one field per line.
func PrintTransaction(out io.Writer, t *report.TransactionalID) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	since, until := "-", "-"
	if t.Since != nil {
		since = at(*t.Since).Format(time.RFC3339)
	}
	if t.Until != nil {
		until = at(*t.Until).Format(time.RFC3339)
	}
	for _, field := range [][2]string{
		{"TRANSACTIONAL-ID", t.TransactionalID},
		{"COORDINATOR", strconv.Itoa(int(t.Coordinator))},
		{"STATE", t.State},
		{"PRODUCER", strconv.FormatInt(t.ProducerID, 10)},
		{"EPOCH", strconv.Itoa(int(t.Epoch))},
		{"TIMEOUT", time.Duration(t.TimeoutSeconds * float64(time.Second)).String()},
		{"STARTED", since},
		{"ENDS-BY", until},
		{"CHANGED", at(t.Changed).Format(time.RFC3339)},
		{"PARTITIONS", partitionNames(t.Partitions)},
		{"UNMARKED", strconv.Itoa(t.Unmarked)},
	} {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", field[0], field[1])
	}
	return table.Flush() // writes go to memory; their errors are returned here
}

// PrintOpen writes a table with one line for each open transaction in a partition.
func PrintOpen(out io.Writer, open []report.OpenTransaction, now time.Time) error {
	return printTable(out, "TOPIC PARTITION LEADER PRODUCER EPOCH FIRST-OFFSET OPEN", open,
		func(t report.OpenTransaction) []string {
			return []string{t.Topic, strconv.Itoa(int(t.Partition)), strconv.Itoa(int(t.Broker)),
				strconv.FormatInt(t.ProducerID, 10), strconv.Itoa(int(t.Epoch)),
				strconv.FormatInt(t.FirstOffset, 10), age(now.Sub(at(t.Since)))}
		})
}

// PrintHangingCount writes a line if leaders have found hanging transactions.
func PrintHangingCount(out io.Writer, open []report.OpenTransaction) error {
	count := 0
	for i := range open {
		if open[i].Hanging {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d open transactions hang: run heartwood transactions find-hanging\n",
		count)
	return err
}

// at converts Unix seconds to a time.
func at(unix float64) time.Time {
	return time.UnixMilli(int64(math.Round(unix * 1000))).UTC()
}
