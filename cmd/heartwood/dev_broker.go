package main

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/dev"
)

// devBrokerCommand returns the command that `heartwood dev --processes` starts for each broker.
// Help texts do not list this command.
func devBrokerCommand() *cobra.Command {
	var opts dev.ChildOptions
	var listeners string
	cmd := &cobra.Command{Use: "dev-broker", Short: "Run one broker of heartwood dev --processes",
		Hidden: true, Args: usage.NoArgs}
	flags := cmd.Flags()
	flags.Int32Var(&opts.NodeID, "node-id", 0, "`ID` number of the broker")
	flags.StringVar(&listeners, "listeners", "", "`JSON` listeners of the broker")
	flags.StringVar(&opts.PeerHost, "peer-host", "", "`HOST` where other brokers connect")
	flags.StringVar(&opts.Certificates, "certificates", "", "`DIR` the broker's certificates")
	flags.StringVar(&opts.Cluster, "cluster", "", "`NAME` LogCluster of the broker")
	flags.StringVar(&opts.DataDir, "data-dir", "", "`DIR` where the logs are stored")
	flags.StringVar(&opts.Rack, "rack", "", "`NAME` rack of the broker")
	flags.StringVar(&opts.HTTP, "http", "", "`HOST:PORT` serve metrics and health here")
	flags.StringSliceVar(&opts.Hosts, "allow-host", nil,
		"`NAME,...` hosts under which clients open the port of --http, besides localhost and addresses")
	flags.BoolVar(&opts.Pprof, "pprof", false, "serve profiles on the port of --http")
	level := addLogLevel(cmd, slog.LevelWarn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		opts.Logger, opts.Level = level.textLogger(cmd.ErrOrStderr()), level.current()
		if err := json.Unmarshal([]byte(listeners), &opts.Listeners); err != nil {
			return usage.Misused(cmd, fmt.Errorf("invalid argument for --listeners: %w", err))
		}
		return dev.RunChild(cmd.Context(), opts)
	}
	return cmd
}
