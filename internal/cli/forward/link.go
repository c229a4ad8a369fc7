package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// messageBytesMax limits the size of the kubelet's error message.
	messageBytesMax = 4 << 10
	// messageWait is how long a connection that has ended waits for the kubelet's error message.
	messageWait = time.Second
)

// link is the connection to the API server that is used for one pod.
type link struct {
	requests atomic.Int64 // number of connections opened so far
	ready    chan struct{}
	mu       struct {
		sync.Mutex
		closed  bool
		streams httpstream.Connection // nil while connecting, and if err is set
		err     error
	}
}

func newLink() *link { return &link{ready: make(chan struct{})} }

// connect connects to the API server and then closes the channel ready.
func (l *link) connect(dialer httpstream.Dialer) {
	streams, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err == nil && protocol != portforward.PortForwardProtocolV1Name {
		err = errors.Join(fmt.Errorf("the API server offers protocol %q, want %q", protocol,
			portforward.PortForwardProtocolV1Name), streams.Close())
		streams = nil
	}
	l.mu.Lock()
	l.mu.streams, l.mu.err = streams, err
	closed := l.mu.closed
	l.mu.Unlock()
	close(l.ready)
	if closed && err == nil {
		_ = streams.Close() // the link was closed in the meantime
	}
}

// wait waits until the link is ready. It returns an error if the connection has failed.
func (l *link) wait(ctx context.Context) error {
	select {
	case <-l.ready:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mu.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended reports whether the link has failed or was closed by the API server.
func (l *link) ended() bool {
	select {
	case <-l.ready:
	default:
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		return true
	}
	select {
	case <-l.mu.streams.CloseChan():
		return true
	default:
		return false
	}
}

func (l *link) close() error {
	l.mu.Lock()
	l.mu.closed = true
	streams := l.mu.streams
	l.mu.Unlock()
	if streams == nil {
		return nil // connect closes it
	}
	return streams.Close()
}

// open opens the streams for a connection to a port. The link must be ready.
func (l *link) open(port int32) (net.Conn, error) {
	l.mu.Lock()
	streams := l.mu.streams
	l.mu.Unlock()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(l.requests.Add(1), 10))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	messages, err := streams.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = messages.Close() // only the kubelet writes to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := streams.CreateStream(headers)
	if err != nil {
		streams.RemoveStreams(messages)
		return nil, err
	}
	near, far := net.Pipe()
	c := &conn{Conn: near, failed: make(chan struct{})}
	go c.awaitMessage(messages)
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close()
		// Discard the data that the pod still sends; otherwise it would block the other connections of
		// the link.
		_ = data.Reset()
	}()
	go func() {
		_, _ = io.Copy(far, data)
		_ = data.Close()
		select {
		case <-c.failed:
		case <-time.After(messageWait):
		}
		_ = far.Close()
		streams.RemoveStreams(messages, data)
	}()
	return c, nil
}

// conn is a connection to a port of a pod. It is one end of a net.Pipe, because net.Pipe supports
// deadlines and streams do not.
type conn struct {
	net.Conn
	failure error         // the kubelet's message; read it only after failed is closed
	failed  chan struct{} // closed when the stream of error messages has ended
}

// awaitMessage reads the kubelet's error message, which is empty if the connection succeeds.
func (c *conn) awaitMessage(messages io.Reader) {
	text, _ := io.ReadAll(io.LimitReader(messages, messageBytesMax))
	if len(text) > 0 {
		c.failure = dialError(errors.New(string(text)))
	}
	close(c.failed)
}

// Read reads data. If the connection has failed, it returns the kubelet's message as an error.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		select {
		case <-c.failed:
			if c.failure != nil {
				return n, c.failure
			}
		default:
		}
	}
	return n, err
}
