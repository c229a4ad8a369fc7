package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"heartwood.dev/heartwood/api/report"
)

// leaderTimeout limits a request to a broker that a response has named. Such a broker may be
// unreachable from here, for example through kubectl port-forward.
const leaderTimeout = 3 * time.Second

// Partitions requests the placement of topics from the broker at the first address. It requests the
// lag of the replicas from the leaders, at the other addresses or, if there are none, at the same
// port. If topics is empty, it returns all topics. If a leader cannot be reached, the lag of its
// partitions remains unknown.
func (c *Client) Partitions(ctx context.Context, addresses,
	topics []string) (report.Placement, error) {
	if len(addresses) > 1 {
		all := NewFleet(c, addresses, false).Ask(ctx, topics)
		if len(all.Unanswered) == len(addresses) {
			return report.Placement{}, all.Unanswered[0].Err
		}
		return all.Placement, ctx.Err()
	}
	address := addresses[0]
	placement, err := c.placement(ctx, address, topics)
	if err != nil {
		return report.Placement{}, err
	}
	_, port, _ := net.SplitHostPort(address) // ParseAddress has validated it
	var mu sync.Mutex
	answers := map[int32]report.Placement{}
	var requests sync.WaitGroup
	for _, broker := range placement.Brokers {
		if broker.Host == "" || !leadsUnknown(placement, broker.Broker) {
			continue
		}
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
			defer cancel()
			answer, err := c.placement(ctx, net.JoinHostPort(broker.Host, port), topics)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[broker.Broker] = answer
			}
		})
	}
	requests.Wait()
	for broker, answer := range answers {
		merge(&placement, broker, answer)
	}
	return placement, ctx.Err()
}

// leadsUnknown reports whether a broker leads a partition whose lag is unknown.
func leadsUnknown(placement report.Placement, broker int32) bool {
	return slices.ContainsFunc(placement.Partitions, func(p report.PlacedPartition) bool {
		return p.Leader == broker && p.Lag == nil && p.Reason != "LeaderStarting"
	})
}

// merge replaces the partitions that a broker leads with those in its own response.
func merge(placement *report.Placement, broker int32, answer report.Placement) {
	for _, theirs := range answer.Partitions {
		index, found := slices.BinarySearchFunc(placement.Partitions, theirs,
			func(a, b report.PlacedPartition) int {
				return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
			})
		if found && theirs.Leader == broker && placement.Partitions[index].Leader == broker {
			placement.Partitions[index] = theirs
		}
	}
}

// PrintPartitions writes a table with one line for each partition.
func PrintPartitions(out io.Writer, partitions []report.PlacedPartition) error {
	return printTable(out, "TOPIC PARTITION LEADER EPOCH REPLICAS ISR LAG REASON",
		partitions, func(p report.PlacedPartition) []string {
			leader, lag := "-", "-"
			if p.Leader >= 0 {
				leader = strconv.Itoa(int(p.Leader))
			}
			if p.Lag != nil {
				lag = strconv.FormatInt(*p.Lag, 10)
			}
			replicas := ids(p.Replicas)
			if len(p.Target) > 0 {
				replicas += " -> " + ids(p.Target)
			}
			return []string{p.Topic, strconv.Itoa(int(p.Partition)), leader,
				strconv.Itoa(int(p.LeaderEpoch)), replicas, ids(p.InSyncReplicas), lag,
				cmp.Or(p.Reason, "-")}
		})
}

// PrintRetained writes a table with one line for each retained partition.
func PrintRetained(out io.Writer, partitions []report.RetainedPartition) error {
	return printTable(out, "TOPIC PARTITION EPOCH REPLICAS ID STATE", partitions,
		func(p report.RetainedPartition) []string {
			state := "Retained"
			if p.Removing {
				state = "Removing"
			}
			return []string{p.Topic, strconv.Itoa(int(p.Partition)),
				strconv.Itoa(int(p.LeaderEpoch)), ids(p.Replicas), p.Tag, state}
		})
}

// printTable writes a table. Parameter head contains the names of the columns, separated by spaces.
func printTable[T any](out io.Writer, head string, rows []T, columns func(T) []string) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, strings.ReplaceAll(head, " ", "\t"))
	for _, row := range rows {
		_, _ = fmt.Fprintln(table, strings.Join(columns(row), "\t"))
	}
	return table.Flush() // writes go to memory; their errors are returned here
}

// ids formats broker ids, such as "0,1,2", or "-" if there are none.
func ids(brokers []int32) string {
	words := make([]string, len(brokers))
	for i, id := range brokers {
		words[i] = strconv.Itoa(int(id))
	}
	return cmp.Or(strings.Join(words, ","), "-")
}
