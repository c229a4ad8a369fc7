package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/dev"
)

// devBrokerCommand is the command that `heartwood dev --processes` starts for each broker. Help
// texts do not list it.
func devBrokerCommand() *cobra.Command {
	var opts dev.ChildOptions
	cmd := &cobra.Command{Use: "dev-broker", Short: "Run one broker of heartwood dev --processes",
		Hidden: true, Args: noArgs}
	flags := cmd.Flags()
	flags.Int32Var(&opts.NodeID, "node-id", 0, "`ID` of the broker")
	flags.StringVar(&opts.Listen, "listen", "", "`HOST:PORT` to listen on for Kafka clients")
	flags.StringVar(&opts.Advertise, "advertise", "",
		"`HOST:PORT` at which clients reach this broker")
	flags.StringVar(&opts.DataDir, "data-dir", "", "`DIR` of the logs")
	flags.StringVar(&opts.Rack, "rack", "", "`NAME` of the rack")
	flags.StringVar(&opts.HTTP, "http", "", "`HOST:PORT` of metrics and health")
	flags.BoolVar(&opts.Pprof, "pprof", false, "serve profiles on the port of --http")
	level := addLogLevel(cmd, slog.LevelWarn)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		opts.Logger = level.textLogger(cmd.ErrOrStderr())
		return dev.RunChild(cmd.Context(), opts)
	}
	return cmd
}
