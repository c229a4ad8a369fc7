package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/remote"
)

func topicsCommand() *cobra.Command {
	addresses, asJSON := brokerAddresses{}, false
	cmd := &cobra.Command{
		Use:   "topics [TOPIC]...",
		Short: "Show topics and the state of their compaction",
		Long: `Show topics and the state of their compaction, one per line, like kubectl get topics.

DIRTY is the highest dirty ratio of a partition. RECLAIMABLE is what a pass would reclaim (a dash if
unknown). CLEANED is the time since the last pass, of the partition where it is longest. WHY is the
reason of the Topic's condition Compacting. heartwood dev shows all partitions; a broker in a pod
shows only its own. GET /api/v1/partitions returns the state of each partition.`,
		Example: `  heartwood topics
  heartwood topics tickets --json | jq '.topics[].compaction'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			answer, err := (&remote.Client{}).Topics(cmd.Context(), addresses.orDefault()[0],
				names)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(answer)
			}
			return remote.PrintTopics(cmd.OutOrStdout(), answer.Topics, time.Now())
		},
	}
	addresses.addOne(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
