package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// errClosed is the error that Dial returns after Close.
var errClosed = errors.New("the connections to pods are closed")

// Pods connects to the pods of one namespace.
type Pods struct {
	config    *rest.Config
	namespace string
	mu        struct {
		sync.Mutex
		links  map[string]*link // by name of the pod
		closed bool
	}
}

// New returns Pods that use the credentials in the configuration.
func New(config *rest.Config, namespace string) *Pods {
	p := &Pods{config: config, namespace: namespace}
	p.mu.links = map[string]*link{}
	return p
}

// Dial connects to a port of a pod. The user needs the right to create pods/portforward. If nothing
// listens on the port, Dial succeeds, and the first Read returns the error. Errors of Dial and of
// that Read have type *net.OpError with operation dial, from which clients conclude that they may
// try another server.
func (p *Pods) Dial(ctx context.Context, pod string, port int32) (net.Conn, error) {
	l, err := p.link(pod)
	if err == nil {
		err = l.wait(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to pod %s: %w", pod, dialError(err))
	}
	conn, err := l.open(port)
	if err != nil {
		return nil, fmt.Errorf("connect to port %d of pod %s: %w", port, pod, dialError(err))
	}
	return conn, nil
}

// dialError wraps an error so that it looks like the error of a failed dial.
func dialError(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// link returns the pod's link. If there is none or it has ended, link starts a new one.
func (p *Pods) link(pod string) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, errClosed
	}
	if l := p.mu.links[pod]; l != nil && !l.ended() {
		return l, nil
	}
	dialer, err := p.dialer(pod)
	if err != nil {
		return nil, err
	}
	l := newLink()
	p.mu.links[pod] = l
	go l.connect(dialer)
	return l, nil
}

// dialer returns the dialer of a link.
func (p *Pods) dialer(pod string) (httpstream.Dialer, error) {
	host, path, err := rest.DefaultServerUrlFor(p.config)
	if err != nil {
		return nil, err
	}
	address := &url.URL{Scheme: host.Scheme, Host: host.Host,
		Path: strings.TrimSuffix(host.Path, "/") + strings.TrimSuffix(path, "/") +
			"/api/v1/namespaces/" + p.namespace + "/pods/" + pod + "/portforward"}
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport},
		http.MethodPost, address)
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(address, p.config)
	if err != nil {
		return nil, err
	}
	refused := func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}
	return portforward.NewFallbackDialerForStreaming(sockets, old, refused), nil
}

// Close closes all connections.
func (p *Pods) Close() error {
	p.mu.Lock()
	links := p.mu.links
	p.mu.links, p.mu.closed = nil, true
	p.mu.Unlock()
	var errs []error
	for _, l := range links {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
