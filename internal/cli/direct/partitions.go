package direct

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
)

func partitionsCommand() *cobra.Command {
	addresses, retained, asJSON := Addresses{}, false, false
	cmd := &cobra.Command{
		Use:   "partitions [TOPIC]...",
		Short: "Show the leader, the replicas and the lag of partitions",
		Long: `Show the leader, the replicas and the lag of partitions, one per line.

EPOCH is the leader epoch. REPLICAS are the brokers that hold the partition, the preferred leader
first, and after an arrow the brokers to which it is being moved. LAG is the number of offsets by
which the replica that is behind the most is behind the leader. REASON says why the partition does
not serve or is not fully replicated: ReplicaLost, LeaderOffline, LeaderStarting,
UnderMinInSyncReplicas, Reassigning or UnderReplicated. With ReplicaLost the in-sync replicas have
all lost their logs or disks, so the partition stays offline until a person accepts the loss: with
'kubectl heartwood accept-loss TOPIC/PARTITION', or 'heartwood dev --accept-data-loss'.

The command asks one broker over HTTP, and the leaders for the lag, at the same port on the hosts
that the response contains. The lag is a dash if a leader cannot be reached. On Kubernetes, run the
command in a pod:
  kubectl exec demo-broker-0 -- heartwood partitions

With --retained it shows the partitions of deleted topics whose records are retained
(reclaimPolicy Retain), and the brokers that hold the records. A topic that is created again under
its name continues with these records. 'kubectl heartwood retained remove TOPIC' deletes them. In
'heartwood dev', give the LogCluster the annotation heartwood.dev/remove-retained: TOPIC=ID, with
the ID of the topic in this table. STATE is Removing until all brokers have deleted the records.

The exit code is 1 if a TOPIC does not exist, or with --retained has no retained partitions.`,
		Example: `  heartwood partitions
  heartwood partitions tickets --json | jq '.partitions[] | select(.reason)'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := addresses.Client(cmd)
			if err != nil {
				return err
			}
			var answer report.Placement
			if err := addresses.ask(func(addresses []string) (err error) {
				answer, err = client.Partitions(cmd.Context(), addresses, names)
				return err
			}); err != nil {
				return err
			}
			return printPlacement(cmd.OutOrStdout(), answer, names, retained, asJSON)
		},
	}
	addresses.addOne(cmd)
	cmd.Flags().BoolVar(&retained, "retained", false,
		"show the retained partitions of deleted topics instead")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// printPlacement prints the partitions, or the retained partitions. If some of the names have no
// partitions, it returns an error that lists these names.
func printPlacement(out io.Writer, answer report.Placement, names []string,
	retained, asJSON bool) (err error) {
	var found []string
	what := "topic"
	if retained {
		what = "retained topic"
		for i := range answer.Retained {
			found = append(found, answer.Retained[i].Topic)
		}
	} else {
		for i := range answer.Partitions {
			found = append(found, answer.Partitions[i].Topic)
		}
	}
	unknown := remote.Unknown(what, names, found)
	switch {
	case asJSON:
		err = json.NewEncoder(out).Encode(answer)
	case unknown != nil && len(found) == 0: // no rows, so print no table
	case retained:
		err = remote.PrintRetained(out, answer.Retained)
	default:
		err = remote.PrintPartitions(out, answer.Partitions)
	}
	return errors.Join(err, unknown)
}
