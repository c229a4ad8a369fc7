package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/dev"
)

// devBrokersMax bounds --brokers; its help names the number, too.
const devBrokersMax = 100

// devCommand runs internal/dev. Faults of the manifests are the user's, as those of flags are: exit
// code 2.
func devCommand() *cobra.Command {
	var opts dev.Options
	cmd := &cobra.Command{
		Use:   "dev [-f FILE|DIR]...",
		Short: "Run a whole cluster in this process, from the manifests kubectl takes",
		Long: `Run a whole cluster in this process, from the same LogCluster and Topic manifests that kubectl takes.

The manifests are watched: what you change in them is applied. Topics may also be made with Kafka's own tools.
Once it serves, one line begins with "ready" and says where. Ctrl-C stops it in order; data stays in --data-dir.`,
		Example: `  heartwood dev -f config/samples
  echo 'T-1:printer on fire' | kcat -b 127.0.0.1:9092 -t tickets -P -K:
  curl -s 127.0.0.1:9644/api/v1/partitions`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&opts.Manifests, "filename", "f", nil,
		"manifest `FILE|DIR`; may be given several times")
	flags.IntVar(&opts.Brokers, "brokers", 0,
		"how many brokers, 1 to 100 (default: what the LogCluster says, else 1)")
	flags.StringVar(&opts.Listen, "listen", "127.0.0.1:9092",
		"Kafka `HOST:PORT` of broker 0; broker i listens on port+i")
	flags.StringVar(&opts.HTTP, "http", "127.0.0.1:9644",
		"`HOST:PORT` of metrics, health and /api/v1/partitions")
	flags.StringVar(&opts.DataDir, "data-dir", "heartwood-data",
		"`DIR` of the logs and the cluster's metadata")
	flags.StringSliceVar(&opts.Racks, "racks", nil,
		"`NAME,...` of racks; brokers are in them by turns, and replicas spread over them")
	flags.BoolVar(&opts.AcceptDataLoss, "accept-data-loss", false,
		"go on without records that no broker has any more")
	flags.BoolVar(
		&opts.Processes,
		"processes",
		false,
		"run each broker in a process of its own, which you may kill; broker i has its metrics on the port of --http + 1 + i",
	)
	flags.BoolVar(&opts.NoRestart, "no-restart", false,
		"with --processes: leave a broker down whose process ended, instead of starting it again")
	level := addLogLevel(cmd, slog.LevelWarn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("brokers") && (opts.Brokers < 1 || opts.Brokers > devBrokersMax) {
			return misused(cmd,
				fmt.Errorf("invalid argument %d for --brokers: give 1 to %d", opts.Brokers,
					devBrokersMax))
		}
		opts.Out, opts.LogLevel = cmd.OutOrStdout(), level.String()
		opts.Logger = level.forPeople(cmd.ErrOrStderr())
		err := dev.Run(cmd.Context(), opts)
		if errors.Is(err, dev.ErrUsage) {
			return usageError{err}
		}
		return err
	}
	return cmd
}
