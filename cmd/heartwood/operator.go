package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers"
	accesskube "heartwood.dev/heartwood/internal/access/kube"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/cli/usage"
	"heartwood.dev/heartwood/internal/loglevel"
	"heartwood.dev/heartwood/internal/metadata/kube"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/internal/version"
)

// operatorFlags are the flags of the command operator. The Helm chart sets them.
type operatorFlags struct {
	image, metrics, health string
	namespaces             []string
	electLeader, pprof     bool
	authorizeMetrics       bool
	identity               string
	levelFile              string
}

// namespaceFile is the file in which Kubernetes provides the pod's own namespace to its containers.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func operatorCommand() *cobra.Command {
	var f operatorFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the controllers that reconcile LogClusters and Topics",
		Args:  usage.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "",
		"`IMAGE` run the brokers of LogClusters without spec.image in this image; usually the "+
			"operator's own image")
	flags.Var(address(&f.metrics, ":8080"), "metrics", "`HOST:PORT` serve the operator's metrics here")
	flags.BoolVar(&f.authorizeMetrics, "metrics-authorized", false,
		"serve the metrics with TLS, and only to clients with a token that may get /metrics: the "+
			"operator must be able to create tokenreviews and subjectaccessreviews")
	flags.Var(address(&f.health, ":8081"), "health", "`HOST:PORT` serve /healthz and /readyz here")
	flags.BoolVar(&f.pprof, "pprof", false,
		"serve profiles under /debug/pprof on the port of --metrics")
	flags.StringSliceVar(&f.namespaces, "namespaces", nil,
		"`NAMESPACE,...` watch only these namespaces")
	flags.BoolVar(&f.electLeader, "leader-elect", true,
		"run the controllers only while this operator holds the operators' Lease")
	flags.StringVar(&f.identity, "identity", "", "`IDENTITY` name of the Lease's holder: unique "+
		"among operators and stable across restarts, such as the pod's name (default: random at each "+
		"start)")
	level := addLogLevel(cmd, slog.LevelInfo)
	flags.StringVar(&f.levelFile, "log-level-file", "", "`FILE` read the log level from here, "+
		"instead of --log-level; the file is read again every few seconds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := required(cmd, "image"); err != nil {
			return err
		}
		logger := level.jsonLogger(cmd.ErrOrStderr())
		ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
		if f.levelFile != "" {
			file := loglevel.File{Path: f.levelFile, Level: level.current(), Logger: logger}
			if err := file.Load(); err != nil {
				return err
			}
			var following sync.WaitGroup
			ctx, stop := context.WithCancel(cmd.Context())
			following.Go(func() { file.Follow(ctx) })
			defer func() { stop(); following.Wait() }()
		}
		manager, err := newManager(f)
		if err != nil {
			return err
		}
		logger.Info("operator starting", "version", version.Version(), "commit", version.Commit(),
			"brokerImage", f.image,
			"namespaces", f.namespaces)
		return manager.Start(cmd.Context())
	}
	return cmd
}

// metricsOptions returns the options of the metrics server.
func (f operatorFlags) metricsOptions() metricsserver.Options {
	options := metricsserver.Options{BindAddress: f.metrics}
	if f.authorizeMetrics {
		options.SecureServing = true // with a certificate that the operator creates when it starts
		options.FilterProvider = metricsFilter
	}
	if f.pprof {
		options.ExtraHandlers = map[string]http.Handler{httpport.PprofPath: httpport.NewPprof()}
	}
	return options
}

// metricsFilter admits a request only if its token's user has the permission to get the URL.
func metricsFilter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	filter, err := accesskube.NewFilter(config, client)
	return filter, err
}

// newManager returns a manager with all controllers; the caller starts the manager. The manager
// releases the leader election Lease when it stops. So another operator takes over without waiting
// for the expiry of the Lease. This is safe only because the process exits as soon as the manager
// has stopped.
func newManager(f operatorFlags) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register Kubernetes types: %w", err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register resources: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the connection to the API server: %w", err)
	}
	watches, err := kube.WatchClient(config)
	if err != nil {
		return nil, fmt.Errorf("create watch client: %w", err)
	}
	options := ctrl.Options{
		Scheme:         scheme,
		MapperProvider: controllers.Mapper,
		Cache: cache.Options{
			ByObject: controllers.CacheByObject(), HTTPClient: watches,
			// Managed fields are about half of each object's size, and no controller uses them. If an update
			// omits them, the API server keeps the stored fields.
			DefaultTransform: cache.TransformStripManagedFields(),
		},
		Metrics:                       f.metricsOptions(),
		HealthProbeBindAddress:        f.health,
		LeaderElection:                f.electLeader,
		LeaderElectionID:              controllers.OperatorLease,
		LeaderElectionReleaseOnCancel: true,
	}
	if f.electLeader && f.identity != "" {
		namespace, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("read the namespace of the operators' Lease: %w", err)
		}
		if options.LeaderElectionResourceLockInterface,
			err = controllers.OperatorLock(config, strings.TrimSpace(string(namespace)),
			f.identity); err != nil {
			return nil, err
		}
	}
	if len(f.namespaces) > 0 {
		options.Cache.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range f.namespaces {
			options.Cache.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	if err := manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add health check: %w", err)
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add readiness check: %w", err)
	}
	// Outside a pod, the operator has no namespace.
	namespace, _ := os.ReadFile(namespaceFile)
	if err := controllers.Setup(manager, render.Settings{Image: f.image,
		Namespace: strings.TrimSpace(string(namespace))}); err != nil {
		return nil, fmt.Errorf("set up controllers: %w", err)
	}
	return manager, nil
}
