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
		Short: "Show the topics of a heartwood dev, and what the cleaner does with them",
		Long: `Show topics, and what the cleaner does with them: a line each, with what kubectl get topics shows on Kubernetes.

DIRTY is the largest share of any partition, RECLAIMABLE what a clean would free (a dash: not known yet), CLEANED the partition that
was cleaned longest ago, WHY the reason of the Topic's condition Compacting. heartwood dev knows all of its partitions; a broker in a pod
only its own. GET /api/v1/partitions tells of each partition.`,
		Example: `  heartwood topics
  heartwood topics tickets --json | jq '.topics[].compaction'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			answer, err := (&remote.Client{}).Topics(cmd.Context(), addresses.orStandard()[0],
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
