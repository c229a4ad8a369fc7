package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/remote"
)

// httpStandard is where heartwood dev listens, and a broker in its pod.
const httpStandard = "127.0.0.1:9644"

// brokerAddresses is the flag --address.
type brokerAddresses struct{ list []string }

func (a *brokerAddresses) Type() string { return "HOST:PORT" }

func (a *brokerAddresses) String() string { return strings.Join(a.list, ",") }

func (a *brokerAddresses) Set(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		address, err := remote.ParseAddress(one)
		if err != nil {
			return err
		}
		a.list = append(a.list, address)
	}
	return nil
}

// orStandard are the addresses given, or the standard one.
func (a *brokerAddresses) orStandard() []string {
	if len(a.list) == 0 {
		return []string{httpStandard}
	}
	return a.list
}

func (a *brokerAddresses) add(cmd *cobra.Command) {
	cmd.Flags().Var(a, "address",
		"of a broker's HTTP port; may be given several times (default "+httpStandard+")")
}

// addOne is add for a command that asks one broker; the first address counts.
func (a *brokerAddresses) addOne(cmd *cobra.Command) {
	cmd.Flags().Var(a, "address", "of a broker's HTTP port (default "+httpStandard+")")
}

func cleanCommand() *cobra.Command {
	clean, addresses, wait, asJSON := remote.Clean{}, brokerAddresses{}, false, false
	cmd := &cobra.Command{
		Use:   "clean TOPIC",
		Short: "Have the brokers clean a topic now, whatever its dirty ratio",
		Long: `Have the brokers clean a topic now, whatever its dirty ratio.

The active segments are rolled first, so that they take part, and no garbage is left for economy: when it is done, each key stands once
below where the log ended at the request. What the topic promises holds: records younger than compaction.minLag stay, and so does what
lies above an open transaction. Tombstones keep their retention. The cleaner's workers, memory and I/O rate bound it as always, and
producers and consumers go on.

A broker is asked over HTTP, and names the others, which are asked at the same port. On Kubernetes, from within a pod:
  kubectl exec demo-broker-0 -- heartwood clean tickets --wait
or without any of this, and seen in the Topic's status:
  kubectl annotate topic tickets heartwood.dev/clean-now="$(date)" --overwrite

The exit code is 0 if all replicas were asked (with --wait: were cleaned), else 1. Ctrl-C ends the waiting, and not the cleaning.
To clean directories that no broker serves: heartwood log clean.`,
		Example: `  heartwood clean tickets --wait
  heartwood clean tickets --partition 0 --partition 3 --address demo-broker-0:9644
  heartwood clean tickets --wait --json | jq '.replicas[].pass.reclaimedBytes'`,
		Args: oneTopic,
		RunE: func(cmd *cobra.Command, args []string) error {
			clean.Topic, clean.Addresses = args[0], addresses.orStandard()
			for _, index := range clean.Partitions {
				if index < 0 {
					return misused(cmd,
						fmt.Errorf("invalid argument %d for --partition: partitions count from 0",
							index))
				}
			}
			cleaning, err := cleanTopic(cmd.Context(), clean, wait, progressTo(cmd, asJSON))
			if cleaning == nil {
				return err
			}
			if asJSON {
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(cleaning), err)
			}
			return errors.Join(printAsked(cmd.OutOrStdout(), cleaning, wait), err)
		},
	}
	cmd.Flags().Int32SliceVar(&clean.Partitions, "partition", nil,
		"`NUMBER` of a partition; may be given several times (default: all)")
	cmd.Flags().Lookup("partition").DefValue = "" // or help would say [] besides
	addresses.add(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done, and show how far it is")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// oneTopic wants the topic's name and nothing else.
func oneTopic(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return misused(cmd, fmt.Errorf("give one TOPIC"))
}

// progressTo writes lines for people as they come: to standard output, or to standard error when
// that is for a program.
func progressTo(cmd *cobra.Command, asJSON bool) func(string) {
	out := cmd.OutOrStdout()
	if asJSON {
		out = cmd.ErrOrStderr()
	}
	return func(line string) { _, _ = fmt.Fprintln(out, line) }
}

// cleanTopic asks, and waits if that is wanted. It returns what was asked for also with an error,
// unless nothing was.
func cleanTopic(ctx context.Context, clean remote.Clean, wait bool,
	tell func(string)) (*remote.Cleaning, error) {
	client := &remote.Client{}
	cleaning, err := client.Start(ctx, clean)
	if err != nil {
		return nil, err
	}
	if wait {
		if err := client.Wait(ctx, cleaning, tell); err != nil {
			return cleaning, err
		}
	}
	err = cleaning.Fault()
	return cleaning, err
}

// printAsked sums up; after a wait each replica has had its line.
func printAsked(out io.Writer, cleaning *remote.Cleaning, waited bool) (err error) {
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
		_, err = fmt.Fprintf(
			out,
			"%s: %d of %d replicas will be cleaned; --wait shows how far it is, and so does heartwood topics\n",
			cleaning.Topic,
			asked,
			len(cleaning.Replicas),
		)
	}
	return err
}
