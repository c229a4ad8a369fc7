package main

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/remote"
)

func topicsCommand() *cobra.Command {
	addresses, asJSON := brokerAddresses{}, false
	cmd := &cobra.Command{
		Use:   "topics [TOPIC]...",
		Short: "Show topics and the state of their compaction",
		Long: `Show topics and the state of their compaction, one per line, like kubectl get topics.

RECORDS is the number of records in the leaders' logs of a compacted topic; ~ marks an estimate.
DIRTY is the highest dirty ratio of any partition. RECLAIMABLE is the size that cleaning all
partitions would free (a dash if unknown). CLEANED is the time since the last pass of the partition
that has not been cleaned for the longest time. WHY is the reason and the message of the Topic's
condition Compacting. heartwood dev summarizes all partitions; a broker in a pod summarizes only its
own replicas. GET /api/v1/partitions returns the state of each replica. The exit code is 1 if a
TOPIC does not exist.`,
		Example: `  heartwood topics
  heartwood topics tickets --json | jq '.topics[].compaction'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := addresses.client(cmd)
			if err != nil {
				return err
			}
			var answer summary.Topics
			if err := addresses.ask(func(at []string) (err error) {
				answer, err = client.Topics(cmd.Context(), at, names)
				return err
			}); err != nil {
				return err
			}
			found := make([]string, len(answer.Topics))
			for i := range answer.Topics {
				found[i] = answer.Topics[i].Topic
			}
			unknown := remote.Unknown("topic", names, found)
			switch {
			case asJSON:
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(answer)
			case len(found) > 0 || unknown == nil:
				err = remote.PrintTopics(cmd.OutOrStdout(), answer.Topics, time.Now())
			}
			return errors.Join(err, unknown)
		},
	}
	addresses.addOne(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
