package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/remote"
)

func scrubCommand() *cobra.Command {
	addresses, wait, asJSON := Addresses{}, false, false
	cmd := &cobra.Command{
		Use:   "scrub [TOPIC]",
		Short: "Check everything at rest, or the files of a topic, now",
		Long: `Make the brokers re-read everything that they keep at rest now, or only the files of a topic.

The brokers check everything once in spec.scrub.interval of the LogCluster anyway. The request
begins a round at once; with TOPIC, the files of the topic are checked before the round continues.
spec.scrub.rate limits the reads, also of requests. Producers and consumers are not interrupted.

The command sends the request to one broker over HTTP. The response contains the hosts of the other
brokers, and the command sends the request to the same port on these hosts. On Kubernetes, use
kubectl heartwood scrub --now.

The exit code is 0 if all brokers accepted the request (with --wait: if all brokers have checked the
files and know no damage in them), else 1. Ctrl-C ends the command, but not the check. The command
fails if the scrub is off.`,
		Example: `  heartwood scrub --wait
  heartwood scrub tickets --wait --address demo-broker-0:9644
  heartwood scrub --wait --json | jq '.brokers[].damage'`,
		Args: topicOrNone,
		RunE: func(cmd *cobra.Command, args []string) error {
			topic := ""
			if len(args) > 0 {
				topic = args[0]
			}
			client, err := addresses.Client(cmd)
			if err != nil {
				return err
			}
			var scrubbing *remote.Scrubbing
			err = addresses.ask(func(names []string) (err error) {
				scrubbing, err = scrubNow(cmd.Context(), client, names, topic, wait,
					progressTo(cmd, asJSON))
				return err
			})
			if scrubbing == nil {
				return err
			}
			if asJSON {
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(scrubbing), err)
			}
			return errors.Join(printScrubbing(cmd.OutOrStdout(), scrubbing, wait), err)
		},
	}
	addresses.Add(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false,
		"wait until the files are checked, and show the progress and the damage")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// topicOrNone checks that there is at most one argument, and that it is not empty.
func topicOrNone(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) == 1 && args[0] != "" {
		return nil
	}
	return usage.Misused(cmd, errors.New("give one TOPIC, or none for everything"))
}

// scrubNow requests a check of a topic, or of all files if topic is "". If wait is true, it then
// waits until the check has ended. If it fails after some brokers have accepted the request, it
// returns both these brokers and the error.
func scrubNow(ctx context.Context, client *remote.Client, addresses []string, topic string,
	wait bool, progress func(string)) (*remote.Scrubbing, error) {
	scrubbing, err := client.StartScrub(ctx, addresses, topic)
	if err != nil {
		return nil, err
	}
	if wait {
		if err := client.WaitScrub(ctx, scrubbing, progress); err != nil {
			return scrubbing, err
		}
	}
	err = scrubbing.Fault()
	return scrubbing, err
}

// printScrubbing prints the damage, and one line about all brokers.
func printScrubbing(out io.Writer, scrubbing *remote.Scrubbing, waited bool) error {
	asked := 0
	for _, b := range scrubbing.Brokers {
		if b.State == remote.Asked || b.State == remote.Done {
			asked++
		}
		if err := errors.Join(printPlaces(out, "damage on", b.Broker, b.Damage),
			printPlaces(out, "repaired on", b.Broker, b.Repaired)); err != nil {
			return err
		}
	}
	what := "will check"
	if waited {
		what = "have checked"
	}
	subject := "everything at rest"
	if scrubbing.Topic != "" {
		subject = "the files of " + scrubbing.Topic
	}
	_, err := fmt.Fprintf(out, "%d of %d brokers %s %s\n", asked, len(scrubbing.Brokers), what,
		subject)
	return err
}

// printPlaces prints a line for each damaged place. what is the text before the broker id.
func printPlaces(out io.Writer, what string, broker int32, places []report.ScrubDamage) error {
	for _, d := range places {
		if _, err := fmt.Fprintf(out, "%s broker %d: %s: position %d: %s\n", what, broker, d.File,
			d.Position, d.Problem); err != nil {
			return err
		}
	}
	return nil
}
