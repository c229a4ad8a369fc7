package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/dev"
)

// devBrokerCommand is what `heartwood dev --processes` starts for each broker; people have no use
// for it, so help does not show it.
func devBrokerCommand() *cobra.Command {
	var opts dev.ChildOptions
	cmd := &cobra.Command{Use: "dev-broker", Short: "Run one broker of heartwood dev --processes",
		Hidden: true, Args: noArgs}
	flags := cmd.Flags()
	flags.Int32Var(&opts.NodeID, "node-id", 0, "`ID` of the broker")
	flags.StringVar(&opts.Listen, "listen", "", "`HOST:PORT` to listen on for Kafka clients")
	flags.StringVar(&opts.Advertise, "advertise", "", "`HOST:PORT` that clients are told")
	flags.StringVar(&opts.DataDir, "data-dir", "", "`DIR` of the logs")
	flags.StringVar(&opts.Rack, "rack", "", "`NAME` of the rack")
	flags.StringVar(&opts.HTTP, "http", "", "`HOST:PORT` of metrics and health")
	level := addLogLevel(cmd, slog.LevelWarn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		opts.Logger = level.forPeople(cmd.ErrOrStderr())
		return dev.RunChild(cmd.Context(), opts)
	}
	return cmd
}
