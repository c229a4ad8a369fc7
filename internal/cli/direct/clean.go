package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

func cleanCommand() *cobra.Command {
	clean, addresses, wait, asJSON := remote.Clean{}, Addresses{}, false, false
	cmd := &cobra.Command{
		Use:   "clean TOPIC",
		Short: "Clean a topic now, regardless of its dirty ratio",
		Long: `Make the brokers clean a topic now, regardless of its dirty ratio.

The brokers first roll the active segments, so that the pass includes them. The pass ignores
compaction.maxGarbagePercent and removes all garbage: of the records that exist at the time of the
request, one remains per key. The topic's other settings apply. Records younger than
compaction.minLag, and records after the start of an open transaction, are not cleaned. Tombstones
keep their retention. The cleaner's limits for workers, memory and I/O apply. Producers and
consumers are not interrupted.

The command sends the request to one broker over HTTP. The response contains the hosts of the other
brokers, and the command sends the request to the same port on these hosts. On Kubernetes, run the
command in a pod:
  kubectl exec demo-broker-0 -- heartwood clean tickets --wait
or set an annotation; the Topic's status shows the result:
  kubectl annotate topic tickets heartwood.dev/clean-now="$(date)" --overwrite

The exit code is 0 if all replicas accepted the request (with --wait: if all replicas were cleaned),
else 1. Ctrl-C ends the command, but not the cleaning. To clean directories without a broker, use
heartwood log clean.`,
		Example: `  heartwood clean tickets --wait
  heartwood clean tickets --partition 0 --partition 3 --address demo-broker-0:9644
  heartwood clean tickets --wait --json | jq '.replicas[].pass.reclaimedBytes'`,
		Args: oneTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			clean.Topic = args[0]
			for _, index := range clean.Partitions {
				if index < 0 {
					return usage.Misused(cmd,
						fmt.Errorf("invalid argument %d for --partition: give 0 or more",
							index))
				}
			}
			client, err := addresses.Client(cmd)
			if err != nil {
				return err
			}
			var cleaning *remote.Cleaning
			err = addresses.ask(func(names []string) (err error) {
				clean.Addresses = names
				cleaning, err = cleanTopic(cmd.Context(), client, clean, wait,
					progressTo(cmd, asJSON))
				return err
			})
			if cleaning == nil {
				return err
			}
			if asJSON {
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(cleaning), err)
			}
			return errors.Join(printSummary(cmd.OutOrStdout(), cleaning, wait), err)
		},
	}
	cmd.Flags().Int32SliceVar(&clean.Partitions, "partition", nil,
		"`NUMBER` clean only this partition; repeatable")
	cmd.Flags().Lookup("partition").DefValue = "" // hides the default [] in the help text
	addresses.Add(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false,
		"wait until the topic is clean, and show the progress")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// oneTopic checks that the only argument is a topic name.
func oneTopic(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return usage.Misused(cmd, fmt.Errorf("give one TOPIC"))
}

// progressTo returns a function that prints a line of progress to standard output. With --json, the
// function prints to standard error, because standard output must contain only JSON.
func progressTo(cmd *cobra.Command, asJSON bool) func(string) {
	out := cmd.OutOrStdout()
	if asJSON {
		out = cmd.ErrOrStderr()
	}
	return func(line string) { _, _ = fmt.Fprintln(out, line) }
}

// cleanTopic requests a clean. If wait is true, it then waits until the clean has ended. If it
// fails after some replicas have accepted the request, it returns both these replicas and the
// error.
func cleanTopic(ctx context.Context, client *remote.Client, clean remote.Clean, wait bool,
	progress func(string)) (*remote.Cleaning, error) {
	cleaning, err := client.Start(ctx, clean)
	if err != nil {
		return nil, err
	}
	if wait {
		if err := client.Wait(ctx, cleaning, progress); err != nil {
			return cleaning, err
		}
	}
	err = cleaning.Fault()
	return cleaning, err
}

// printSummary prints one line about all replicas. If waited is true, it prints how many were
// cleaned, otherwise how many accepted the request.
func printSummary(out io.Writer, cleaning *remote.Cleaning, waited bool) (err error) {
	asked, freed := 0, int64(0)
	for _, replica := range cleaning.Replicas {
		if replica.State == remote.Asked || replica.State == remote.Done {
			asked++
		}
		if replica.Pass != nil {
			freed += replica.Pass.ReclaimedBytes
		}
	}
	switch {
	case waited:
		_, err = fmt.Fprintf(out, "%s: %d of %d replicas cleaned, %s reclaimed\n", cleaning.Topic,
			asked, len(cleaning.Replicas), remote.Bytes(freed))
	default:
		_, err = fmt.Fprintf(out,
			"%s: %d of %d replicas will be cleaned; use --wait or heartwood topics "+
				"to see the progress\n", cleaning.Topic, asked, len(cleaning.Replicas))
	}
	return err
}
