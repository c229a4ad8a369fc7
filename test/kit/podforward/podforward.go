// Package podforward provides a test server for connections to pods. For the subresource
// portforward, the server acts as API server and kubelet. It forwards every other request. It
// supports only SPDY, so clients that try WebSockets first must fall back.
package podforward

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Server is the test server.
type Server struct {
	URL     string
	next    http.Handler
	mu      sync.Mutex
	targets map[string]string // host:port of each target, by pod:port
	dials   int
}

// Start starts a server for a test. If config is not nil, the server forwards other requests to the
// API server in this configuration, as the configuration's user.
func Start(t testing.TB, config *rest.Config) *Server {
	t.Helper()
	s := &Server{targets: map[string]string{}, next: http.NotFoundHandler()}
	if config != nil {
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(config.Host)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.Transport, proxy.FlushInterval = transport, -1
		s.next = proxy
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.URL = server.URL
	return s
}

// Forward sets the target address for connections to a pod's port.
func (s *Server) Forward(pod string, port int32, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.targets[fmt.Sprintf("%s:%d", pod, port)] = address
}

// Dials returns the number of links to pods that clients have opened.
func (s *Server) Dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/portforward") {
		s.next.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "only SPDY is served", http.StatusBadRequest)
		return
	}
	if _, err := httpstream.Handshake(r, w,
		[]string{portforward.PortForwardProtocolV1Name}); err != nil {
		return // Upgrade has already sent the response
	}
	parts := strings.Split(r.URL.Path, "/")
	pod := parts[len(parts)-2]
	streams := make(chan httpstream.Stream, 16)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
		func(stream httpstream.Stream, _ <-chan struct{}) error {
			streams <- stream
			return nil
		})
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	s.mu.Lock()
	s.dials++
	s.mu.Unlock()
	s.serve(pod, connection, streams)
}

// serve pairs the streams of each connection until the client closes the link.
func (s *Server) serve(pod string, connection httpstream.Connection,
	streams <-chan httpstream.Stream) {
	messages := map[string]httpstream.Stream{}
	for {
		select {
		case <-connection.CloseChan():
			return
		case stream := <-streams:
			id := stream.Headers().Get(corev1.PortForwardRequestIDHeader)
			if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				messages[id] = stream
				continue
			}
			go s.copy(pod, stream, messages[id])
		}
	}
}

// copy connects a stream to its target, like a kubelet.
func (s *Server) copy(pod string, data, messages httpstream.Stream) {
	defer func() { _ = data.Close() }()
	defer func() { _ = messages.Close() }()
	port := data.Headers().Get(corev1.PortHeader)
	s.mu.Lock()
	address := s.targets[pod+":"+port]
	s.mu.Unlock()
	to, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		_, _ = fmt.Fprintf(messages, "failed to connect to port %s of pod %s", port, pod)
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, data); done <- struct{}{} }()
	go func() { _, _ = io.Copy(data, to); done <- struct{}{} }()
	<-done
}
