package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/remote"
)

// consoleHeaderTimeout limits the time in which a browser sends the head of a request.
const consoleHeaderTimeout = 10 * time.Second

func consoleCommand(f *flags) *cobra.Command {
	var account account
	port := uint16(0)
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console of a LogCluster on this machine",
		Long: `Serve the web console of a LogCluster on a loopback address of this machine until Ctrl-C, and print
its address. The console reaches the brokers as the other commands do, with your rights; every user
of this machine can open it. It does not show messages, groups and settings: see
'kubectl heartwood tail' and 'groups'.`,
		Args: noArgs,
	}
	account.add(cmd)
	cmd.Flags().Uint16Var(&port, "port", 9645, "`PORT` on 127.0.0.1; 0: any free port")
	cmd.RunE = f.run(func(ctx context.Context, s *session, _ []string) error {
		cluster, err := s.logCluster(ctx)
		if err != nil {
			return err
		}
		client, err := s.http(ctx, cluster, account)
		if err != nil {
			return err
		}
		var addresses []string
		for _, id := range brokerIDs(cluster) {
			addresses = append(addresses, render.HTTPAddress(cluster.Name, s.namespace, id))
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(int(port)))
		if err != nil {
			return fmt.Errorf("listen for http: %w", err)
		}
		pages := console.New(console.Options{Cluster: cluster.Name, Loopback: true,
			Fleet: remote.NewFleet(client, addresses, false)})
		defer pages.Close()
		server := &http.Server{Handler: pages, ReadHeaderTimeout: consoleHeaderTimeout}
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if s.json() {
			err = printLine(s.out, map[string]string{"console": "http://" +
				listener.Addr().String() + "/"})
		} else {
			_, err = fmt.Fprintf(s.out, "ready console=http://%s/\n", listener.Addr())
		}
		if served := server.Serve(listener); !errors.Is(served, http.ErrServerClosed) {
			return fmt.Errorf("serve http: %w", served)
		}
		return err
	})
	return cmd
}
