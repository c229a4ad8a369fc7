package direct

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/internal/remote"
)

// topicsAnswer is the JSON output of the command.
type topicsAnswer struct {
	summary.Topics
	Volumes []report.Volume `json:"volumes"`
}

// printPressure prints a line for each volume that is almost full.
func printPressure(out io.Writer, volumes []report.Volume) {
	for i := range volumes {
		if text := volumes[i].Message; text != "" {
			_, _ = fmt.Fprintf(out, "storage pressure: %s\n", text)
		}
	}
}

func topicsCommand() *cobra.Command {
	addresses, asJSON := Addresses{}, false
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
TOPIC does not exist.

Volumes that are almost full are described on standard error, and in the field volumes of --json.`,
		Example: `  heartwood topics
  heartwood topics tickets --json | jq '.topics[].compaction'`,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := addresses.Client(cmd)
			if err != nil {
				return err
			}
			var answer topicsAnswer
			if err := addresses.ask(func(addresses []string) (err error) {
				if answer.Topics, err = client.Topics(cmd.Context(), addresses, names); err == nil {
					answer.Volumes = client.VolumesOf(cmd.Context(), addresses)
				}
				return err
			}); err != nil {
				return err
			}
			found := make([]string, len(answer.Topics.Topics))
			for i := range found {
				found[i] = answer.Topics.Topics[i].Topic
			}
			unknown := remote.Unknown("topic", names, found)
			switch {
			case asJSON:
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(answer)
			case len(found) > 0 || unknown == nil:
				err = remote.PrintTopics(cmd.OutOrStdout(), answer.Topics.Topics, time.Now())
			}
			if !asJSON {
				printPressure(cmd.ErrOrStderr(), answer.Volumes)
			}
			return errors.Join(err, unknown)
		},
	}
	addresses.addOne(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
