package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/access"
	accesskube "heartwood.dev/heartwood/internal/access/kube"
	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/tokens"
)

const (
	// headerTimeout is the maximum time for the TLS handshake, and for receiving a request's header.
	headerTimeout = 10 * time.Second
	// readTimeout is the maximum time for receiving a request, until the request's handler sets a
	// deadline.
	readTimeout = 30 * time.Second
	// idleTimeout is the maximum time for which a connection without requests stays open.
	idleTimeout = 2 * time.Minute
	// headerBytesMax is the maximum size of a request's header, which contains the token.
	headerBytesMax = 32 << 10
)

// checkHTTP checks the value of --http-metrics.
func (f *brokerFlags) checkHTTP() error {
	switch v1alpha1.HTTPMetrics(f.httpMetrics) {
	case v1alpha1.HTTPMetricsOpen:
		return nil
	case v1alpha1.HTTPMetricsAuthorized:
		if f.certificates == "" {
			return errors.New("--http-metrics=Authorized needs --certificates: without TLS others " +
				"could read the tokens")
		}
		return nil
	}
	return fmt.Errorf("invalid argument %q for --http-metrics: give Open or Authorized",
		f.httpMetrics)
}

// gate returns the authorization of the HTTP port, and the verifier of ServiceAccount tokens. The
// verifier follows the API server's keys until stop is called.
func (f *brokerFlags) gate(ctx context.Context, config *rest.Config,
	registry prometheus.Registerer, logger *slog.Logger) (gate *access.Gate,
	source *tokens.Source, stop func(), err error) {
	api, err := accesskube.New(config, f.namespace, f.cluster)
	if err != nil {
		return nil, nil, nil, err
	}
	audience := v1alpha1.ServiceAccountAudience(f.namespace, f.cluster)
	source = tokens.New(tokens.Options{Read: api.Keys, Name: "API server", Logger: logger,
		Accept: sasl.Issuer{Audience: audience}})
	ctx, cancel := context.WithCancel(ctx)
	following := make(chan struct{})
	go func() { defer close(following); source.Run(ctx) }()
	gate = access.New(access.Options{
		MetricsOpen: v1alpha1.HTTPMetrics(f.httpMetrics) != v1alpha1.HTTPMetricsAuthorized,
		Peer:        broker.HTTPPeer(f.namespace, f.cluster), Tokens: source, Review: api.Review,
		Audience: audience, Registry: registry, Logger: logger,
	})
	return gate, source, func() { cancel(); <-following }, nil
}

// httpServer is a broker's HTTP port.
type httpServer struct {
	address string
	tls     *tls.Config // nil for a server without TLS
	logger  *slog.Logger
}

// serve serves HTTP until ctx ends and then returns nil. At the end, it closes connections without
// waiting for their requests, because waiting would delay the exit of the process.
func (s httpServer) serve(ctx context.Context, handler http.Handler) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("listen for http: %w", err)
	}
	return s.serveOn(ctx, access.Limit(listener), handler)
}

// serveOn is like serve, with a given listener.
func (s httpServer) serveOn(ctx context.Context, listener net.Listener,
	handler http.Handler) error {
	if s.tls != nil {
		listener = tls.NewListener(listener, s.tls)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout,
		ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytesMax,
		// Failed handshakes are logged at debug level, because every client that reaches the port can
		// cause them.
		ErrorLog: slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}
