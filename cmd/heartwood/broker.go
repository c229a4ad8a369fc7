package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/access"
	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/cli/direct"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/loglevel"
	"heartwood.dev/heartwood/internal/metadata/kube"
	"heartwood.dev/heartwood/internal/tokens"
)

// brokerFlags are the flags of the command broker. The operator sets them in the pod (function
// arguments in internal/operator/render).
type brokerFlags struct {
	cluster, namespace         string
	podName, podUID, podIP     string
	dataDir, listen, advertise string
	http, httpMetrics          string
	listeners                  string // listeners as JSON
	peerListen, certificates   string
	pprof                      bool
	level                      *loglevel.Level
}

// brokerCommand returns the command that runs a broker. The command validates all flags before it
// opens a file or a connection, so an invalid flag always results in exit code 2.
func brokerCommand() *cobra.Command {
	var f brokerFlags
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run one broker of a LogCluster in its pod",
		Long: `Run one broker of a LogCluster in the pod that the operator created for it.

The broker reads its topics and leaderships from the Topics and PartitionSets of its namespace.
Its node id is the number at the end of the pod's name.`,
		Args: usage.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.cluster, "cluster", "", "`NAME` LogCluster of the broker")
	flags.StringVar(&f.namespace, "namespace", "", "`NAMESPACE` namespace of the LogCluster")
	flags.StringVar(&f.podName, "pod-name", "", "`NAME` the broker's own pod, such as demo-broker-0")
	flags.StringVar(&f.podUID, "pod-uid", "",
		"`UID` the pod's uid; with it the operator detects at once when the broker process ends "+
			"(default: the operator detects this only by the Lease)")
	flags.StringVar(&f.podIP, "pod-ip", "", "`ADDRESS` where other brokers reach this pod "+
		"(default: the host of --advertise)")
	flags.StringVar(&f.dataDir, "data-dir", "/data", "`DIR` where the logs are stored")
	flags.Var(address(&f.listen, ":9092"), "listen", "`HOST:PORT` listen here for Kafka clients")
	flags.Var(address(&f.advertise, ""), "advertise",
		"`HOST:PORT` where clients reach this broker")
	flags.StringVar(&f.listeners, "listeners", "", "`JSON` LogCluster.spec.listeners as text, "+
		"instead of the port of --listen; all listen on its host and advertise that of --advertise")
	flags.Var(address(&f.peerListen, ""), "peer-listen",
		"`HOST:PORT` listen here for other brokers with mutual TLS (default: they connect to --listen)")
	flags.StringVar(&f.certificates, "certificates", "",
		"`DIR` the keys of Secret <cluster>-brokers-tls as files; required for TLS")
	flags.Var(address(&f.http, ":9644"), "http",
		"`HOST:PORT` serve metrics, health and /api/v1/partitions here")
	flags.StringVar(&f.httpMetrics, "http-metrics", string(v1alpha1.HTTPMetricsOpen),
		"`WHO` the clients that may read the metrics if the port of --http has TLS, as it has with "+
			"--certificates: Open or Authorized")
	flags.BoolVar(&f.pprof, "pprof", false,
		"serve profiles under /debug/pprof on the port of --http")
	level := addLogLevel(cmd, slog.LevelInfo)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := required(cmd, "cluster", "namespace", "pod-name", "advertise"); err != nil {
			return err
		}
		nodeID, err := direct.Ordinal(f.podName)
		if err != nil {
			return usage.Misused(cmd, err)
		}
		listeners, err := f.clientListeners()
		if err != nil {
			return usage.Misused(cmd, err)
		}
		if err := f.checkHTTP(); err != nil {
			return usage.Misused(cmd, err)
		}
		f.level = level.current()
		return runBroker(cmd.Context(), nodeID, f, listeners, level.jsonLogger(cmd.ErrOrStderr()))
	}
	return cmd
}

// runBroker runs a broker and its HTTP server until ctx ends or either fails, and returns the first
// error. It uses its own metrics registry instead of the global one, and therefore exports only the
// broker's metrics.
func runBroker(ctx context.Context, nodeID int32, f brokerFlags, listeners []broker.Listener,
	logger *slog.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("read the configuration of the connection to the API server: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	kubeOptions := kube.Options{
		Config: config, Namespace: f.namespace, Cluster: f.cluster, PodUID: f.podUID,
		Passwords: passwords(listeners), Registry: registry, Logger: logger,
	}
	opts := broker.Options{
		NodeID: nodeID, DataDir: f.dataDir, Listen: f.listen, Advertise: f.advertise,
		Listeners: listeners, PeerHost: f.podIP, PeerListen: f.peerListen,
		Namespace: f.namespace, Cluster: f.cluster, Registry: registry, Logger: logger,
		LogLevel: f.level,
	}
	files := f.certificateFiles(nodeID, listeners, logger)
	if files != nil {
		opts.Certificates = files.Certificates
		kubeOptions.Trust, kubeOptions.UnknownUsers = files.Trust, files.UnknownUsers
		ctx, stopFiles := context.WithCancel(ctx)
		following := make(chan struct{})
		go func() { defer close(following); files.Follow(ctx) }()
		defer func() { stopFiles(); <-following }()
	}
	store, err := kube.New(kubeOptions)
	if err != nil {
		return fmt.Errorf("connect to the API server: %w", err)
	}
	opts.Metadata = store
	server := httpServer{address: f.http, logger: logger}
	var gate *access.Gate
	if files != nil {
		server.tls = files.Certificates.HTTPServer()
		var stopGate func()
		var accounts *tokens.Source
		if gate, accounts, stopGate, err = f.gate(ctx, config, registry, logger); err != nil {
			return err
		}
		defer stopGate()
		opts.ServiceAccounts = accounts
	}
	var started atomic.Pointer[broker.Broker]
	// Start HTTP first, because the startup probe needs an answer while the broker recovers its logs.
	return runWithHTTP(ctx, func(ctx context.Context) error {
		options := brokerHTTP(&started, registry)
		options.Detail, options.Pprof, options.Gate = store.Detail, f.pprof, gate
		return server.serve(ctx, httpport.New(options))
	}, func(ctx context.Context) error {
		b, err := broker.New(opts)
		if err != nil {
			return err
		}
		started.Store(b)
		return b.Run(ctx)
	})
}

// runWithHTTP runs run and serve until ctx ends or either fails. It stops serve only after run has
// returned. So metrics remain available during the controlled shutdown.
func runWithHTTP(ctx context.Context, serve, run func(context.Context) error) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(serving) })
	group.Go(func() error {
		defer stopServing()
		return run(ctx)
	})
	return group.Wait()
}

// errRecovering is the reason why a broker is not ready while it opens its logs.
var errRecovering = errors.New("recovering logs")

// brokerHTTP returns the options of a broker's HTTP handler. Another goroutine stores the broker in
// started, once. Before that, the handler reports that the broker is alive but not ready, and that
// it has no partitions.
func brokerHTTP(started *atomic.Pointer[broker.Broker],
	gatherer prometheus.Gatherer) httpport.Options {
	brokers := func() broker.Brokers {
		if b := started.Load(); b != nil {
			return broker.Brokers{b}
		}
		return nil
	}
	ready := func() error {
		if b := started.Load(); b != nil {
			return b.Ready()
		}
		return errRecovering
	}
	return broker.HTTPOf(gatherer, ready, brokers)
}
