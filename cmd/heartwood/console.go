package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

// consoleFlags are the flags of `heartwood console`.
type consoleFlags struct {
	addresses brokerAddresses
	bootstrap []string
	listen    string
	hosts     []string
	options   console.Options
}

func consoleCommand() *cobra.Command {
	flags := &consoleFlags{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console of a cluster",
		Long: `Serve the web console: what the cleaner does with each segment, topics, groups and brokers.

The console asks the brokers at --address over HTTP, and further brokers that these name at the same
port. It reads messages, groups and settings by the Kafka protocol from --bootstrap. On a loopback
address it also shows messages and accepts requests to clean; on other addresses it is read-only and
shows no messages, because it does not authenticate its users. heartwood dev contains the console;
no second command is needed.`,
		Example: `  kubectl port-forward demo-broker-0 9644 9092 &
  heartwood console --address 127.0.0.1:9644 --bootstrap 127.0.0.1:9092`,
		Args: noArgs,
	}
	flags.addresses.add(cmd)
	set := cmd.Flags()
	set.StringSliceVar(&flags.bootstrap, "bootstrap", nil,
		"`HOST:PORT,...` of the brokers' Kafka listeners; without it, messages, groups and settings "+
			"are not shown")
	set.Var(address(&flags.listen, "127.0.0.1:9645"), "http", "`HOST:PORT` of the console")
	set.StringVar(&flags.options.Cluster, "name", "", "`NAME` of the cluster, shown on each page")
	set.StringSliceVar(&flags.hosts, "allow-host", nil,
		"`NAME,...` under which browsers open the console, besides localhost and addresses")
	set.StringVar(&flags.options.PathPrefix, "path-prefix", "",
		"`PATH` below which a proxy serves the console, if the proxy does not remove it")
	level := addLogLevel(cmd, slog.LevelInfo)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.options.Logger = level.textLogger(cmd.ErrOrStderr())
		return flags.run(cmd)
	}
	return cmd
}

func (f *consoleFlags) run(cmd *cobra.Command) error {
	client, err := f.addresses.client(cmd)
	if err != nil {
		return err
	}
	if p := f.options.PathPrefix; p != "" && !strings.HasPrefix(p, "/") {
		return misused(cmd, fmt.Errorf("invalid argument %q for --path-prefix: begin with /", p))
	}
	f.options.Fleet = remote.NewFleet(client, f.addresses.orDefault(), true)
	if len(f.bootstrap) > 0 {
		f.options.Kafka = func() (*kafka.Client, error) { return kafka.New(f.bootstrap) }
	}
	for _, host := range f.hosts {
		f.options.Hosts = append(f.options.Hosts, strings.ToLower(host))
	}
	var config net.ListenConfig
	listener, err := config.Listen(cmd.Context(), "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen for http: %w", err)
	}
	f.options.Loopback = loopback(listener.Addr())
	pages := console.New(f.options)
	defer pages.Close()
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "ready console=http://%s/\n", listener.Addr())
	return serveConsole(cmd.Context(), listener, pages)
}

func loopback(addr net.Addr) bool {
	parsed, err := netip.ParseAddrPort(addr.String())
	return err == nil && parsed.Addr().Unmap().IsLoopback()
}

// consoleHeaderTimeout bounds the time until a request header has been received.
const consoleHeaderTimeout = 10 * time.Second

// serveConsole serves until ctx ends.
func serveConsole(ctx context.Context, listener net.Listener, pages http.Handler) error {
	server := &http.Server{Handler: pages, ReadHeaderTimeout: consoleHeaderTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
