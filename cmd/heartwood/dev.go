package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/dev"
)

// devBrokersMax is the maximum value of --brokers.
const devBrokersMax = 100

// devCommand returns the command that runs internal/dev. Invalid manifests result in exit code 2,
// like invalid flags.
func devCommand() *cobra.Command {
	var opts dev.Options
	cmd := &cobra.Command{
		Use:   "dev [-f FILE|DIR]...",
		Short: "Run a whole cluster in this process from Kubernetes manifests",
		Long: `Run a whole cluster in this process from the LogCluster and Topic manifests that kubectl applies.

The manifests are watched, and changes are applied. Kafka's tools can create topics as well. Once
the cluster is ready, the command prints a line that starts with "ready" and contains the addresses.
Ctrl-C shuts the cluster down gracefully; the data stays in --data-dir.

To delete a topic, delete it in its manifest: the topic is deleted 5 seconds after the file is
saved, with its records if its reclaimPolicy is Delete. While the file is missing, empty or invalid,
its topics stay, and kafka-topics --delete deletes them. That command also deletes topics without a
manifest, but none that a manifest describes.`,
		Example: `  heartwood dev -f config/samples
  echo 'T-1:printer on fire' | kcat -b 127.0.0.1:9092 -t tickets -P -K:
  curl -s 127.0.0.1:9644/api/v1/partitions`,
		Args: usage.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&opts.Manifests, "filename", "f", nil,
		"`FILE|DIR` read these manifests; repeatable")
	flags.IntVar(&opts.Brokers, "brokers", 0,
		"number of brokers, 1 to 100 (default: spec.brokers of the LogCluster, else 1)")
	flags.StringVar(&opts.Listen, "listen", "127.0.0.1:9092",
		"`HOST:PORT` broker 0 listens here for Kafka clients; broker i listens on PORT+i")
	flags.StringVar(&opts.Advertise, "advertise", "",
		"`HOST:PORT` where clients reach broker 0, as through a mapped port of a container; PORT+i "+
			"for broker i, and PORT+100+i for the second listener (default: that of --listen)")
	flags.StringVar(&opts.HTTP, "http", "127.0.0.1:9644",
		"`HOST:PORT` serve metrics, health and /api/v1/partitions here")
	flags.StringSliceVar(&opts.Hosts, "allow-host", nil,
		"`NAME,...` hosts under which clients open the port of --http, besides localhost and addresses")
	flags.BoolVar(&opts.Pprof, "pprof", false,
		"serve profiles under /debug/pprof on the port of --http, which must be a loopback address")
	flags.StringVar(&opts.DataDir, "data-dir", "heartwood-data",
		"`DIR` where the logs and the cluster's metadata are stored")
	flags.StringSliceVar(&opts.Racks, "racks", nil,
		"`NAME,...` racks, assigned to brokers round-robin; replicas are spread over racks")
	flags.BoolVar(&opts.AcceptDataLoss, "accept-data-loss", false,
		"serve partitions whose in-sync replicas have all lost their disks or logs, without the lost records")
	flags.BoolVar(&opts.Processes, "processes", false,
		"run each broker in its own process, which may "+
			"be killed; broker i serves metrics on the port of --http + 1 + i")
	flags.BoolVar(&opts.NoRestart, "no-restart", false,
		"with --processes: do not restart a broker whose process has exited")
	level := addLogLevel(cmd, slog.LevelWarn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("brokers") && (opts.Brokers < 1 || opts.Brokers > devBrokersMax) {
			return usage.Misused(cmd,
				fmt.Errorf("invalid argument %d for --brokers: give 1 to %d", opts.Brokers,
					devBrokersMax))
		}
		opts.Out, opts.LogLevel = cmd.OutOrStdout(), level.String()
		opts.Logger, opts.Level = level.textLogger(cmd.ErrOrStderr()), level.current()
		err := dev.Run(cmd.Context(), opts)
		if errors.Is(err, dev.ErrUsage) {
			return usage.New(err)
		}
		return err
	}
	return cmd
}
