package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/internal/cli/direct"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/console/connect"
	"heartwood.dev/heartwood/internal/console/kafka"
	consolekube "heartwood.dev/heartwood/internal/console/kube"
	"heartwood.dev/heartwood/internal/remote"
)

// consoleFlags are the flags of `heartwood console`.
type consoleFlags struct {
	addresses direct.Addresses
	bootstrap []string
	userDir   string
	listen    string
	hosts     []string
	auth      string
	cluster   string
	options   console.Options

	kubernetes     bool
	namespaces     []string
	logUser        string
	serviceAccount string
	certificate    string
	key            string
}

func consoleCommand() *cobra.Command {
	flags := &consoleFlags{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the web console of a cluster",
		Long: `Serve the web console: what the cleaner does with each segment, topics, groups and brokers.

The console asks the brokers at --address over HTTP, and further brokers that these name at the same
port. It reads messages, groups and settings by the Kafka protocol from --bootstrap, on listeners
with authentication as the LogUser of --user-dir. heartwood dev contains the console; no second
command is needed.

On a loopback address the console also shows messages and makes changes: requests to clean, records,
offsets of groups, the abort of transactions. On other addresses it is read-only and shows no
messages, unless --auth=kubernetes authenticates its users. They then log in with a token that the
API server of KUBECONFIG (in a pod: of the pod) accepts, or an authenticating proxy sends it in the
header Authorization. RBAC decides what they may: get logclusters/report for all pages, get
logclusters/records for messages and keys, patch topics for requests to clean, which the console
sends with the token of the user, and further rights for other changes (docs/use/console.md).

With --kubernetes, which the Helm chart uses (console.enabled), the console serves all LogClusters
that it may list, and connects to them by the names of their pods. For those that are secured it
creates tokens of its own ServiceAccount.`,
		Example: `  kubectl port-forward demo-broker-0 9644 9092 &
  heartwood console --address 127.0.0.1:9644 --bootstrap 127.0.0.1:9092`,
		Args: usage.NoArgs,
	}
	flags.add(cmd)
	level := addLogLevel(cmd, slog.LevelInfo)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		flags.options.Logger = level.textLogger(cmd.ErrOrStderr())
		return flags.run(cmd)
	}
	return cmd
}

func (f *consoleFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
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
	scheme := "http"
	if f.certificate != "" {
		scheme, listener = "https", tls.NewListener(listener, f.tls())
	}
	pages, err := f.pages(cmd)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer pages.Close()
	_, _ = fmt.Fprintf(cmd.OutOrStdout(), "ready console=%s://%s/\n", scheme, listener.Addr())
	return serveConsole(cmd.Context(), listener, pages)
}

// consolePages are the pages of a Console or of a Site.
type consolePages interface {
	http.Handler
	Close()
}

// pages returns the handler that the flags select. With --auth=kubernetes or --kubernetes, it is a
// site.
func (f *consoleFlags) pages(cmd *cobra.Command) (consolePages, error) {
	site := console.SiteOptions{Loopback: f.options.Loopback, Hosts: f.options.Hosts,
		Prefix: f.options.PathPrefix, Logger: f.options.Logger}
	if !f.kubernetes {
		client, err := f.addresses.Client(cmd)
		if err != nil {
			return nil, err
		}
		f.options.Fleet = remote.NewFleet(client, f.addresses.OrDefault(), true)
		if len(f.bootstrap) > 0 || f.userDir != "" {
			f.options.Kafka = f.kafka
		}
		if f.auth == authNone {
			return console.New(f.options), nil
		}
		f.addOnly(&site)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the connection to the API server: %w", err)
	}
	if f.kubernetes {
		namespace, name, _ := namespaced(f.serviceAccount)
		clusters, err := consolekube.NewClusters(config, consolekube.ClustersOptions{
			Namespaces: f.namespaces, LogUser: f.logUser,
			Account: types.NamespacedName{Namespace: namespace, Name: name}})
		if err != nil {
			return nil, err
		}
		site.List, site.Connect = clusters.List, clusters.Connect
	}
	if f.auth == authKubernetes {
		authority, err := consolekube.NewAuthority(config)
		if err != nil {
			return nil, err
		}
		site.Authority = authority
	}
	return console.NewSite(site), nil
}

// addOnly restricts a site to the LogCluster given by --logcluster.
func (f *consoleFlags) addOnly(site *console.SiteOptions) {
	namespace, name, _ := namespaced(f.cluster)
	only := console.Cluster{ClusterName: console.ClusterName{Namespace: namespace, Name: name}}
	site.List = func(context.Context) ([]console.Cluster, error) {
		return []console.Cluster{only}, nil
	}
	site.Connect = func(console.Cluster) (console.Connection, error) {
		return console.Connection{Fleet: f.options.Fleet, Kafka: f.options.Kafka}, nil
	}
}

// kafka connects to the brokers with the Kafka protocol.
func (f *consoleFlags) kafka() (*kafka.Client, error) {
	if f.userDir == "" {
		return kafka.New(f.bootstrap)
	}
	bootstrap, options, err := connect.Directory(f.userDir).Connect()
	if err != nil {
		return nil, err
	}
	if len(f.bootstrap) > 0 {
		bootstrap = f.bootstrap
	}
	return kafka.New(bootstrap, options...)
}

func loopback(addr net.Addr) bool {
	parsed, err := netip.ParseAddrPort(addr.String())
	return err == nil && parsed.Addr().Unmap().IsLoopback()
}

const (
	// consoleHeaderTimeout is the maximum time until a request's header has been received.
	consoleHeaderTimeout = 10 * time.Second
	// consoleIdleTimeout is the maximum time between two requests on a connection.
	consoleIdleTimeout = 2 * time.Minute
)

// serveConsole serves the pages until ctx ends.
func serveConsole(ctx context.Context, listener net.Listener, pages http.Handler) error {
	server := &http.Server{Handler: pages, ReadHeaderTimeout: consoleHeaderTimeout,
		IdleTimeout: consoleIdleTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
