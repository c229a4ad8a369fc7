package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// connectTimeout is the maximum time to connect to a broker's listener. A timeout does not prove
	// that the broker process has exited.
	connectTimeout = time.Second
	// handshakeTimeout is the maximum time of a TLS handshake.
	handshakeTimeout = 3 * time.Second
	// minReconnectDelay is the pause after the first reconnection. The pause doubles with each further
	// reconnection in a row, and is at most maxReconnectDelay. The first pause is short, because the
	// listener of a process that exits can accept connections for a moment after its existing
	// connections were closed.
	minReconnectDelay = 10 * time.Millisecond
	maxReconnectDelay = time.Second
)

// connections detects at once that a broker process has exited. For each broker it keeps an idle
// connection to the port that the other brokers use, with TLS if the broker uses TLS on this port.
// When a process exits for any reason, the kernel of its node closes the connection. It also closes
// the listener and therefore refuses a new connection. The pod's status shows the exit about a
// second later: the kubelet polls once per second and reports through the API server.
//
// A refused connection proves the exit, but only if an earlier connection was established. A failed
// node or a partitioned network does not refuse connections, and a network policy that refuses them
// would also have refused the first one.
//
// Goroutines: one per watched broker. It ends when watch is called with another broker epoch or
// address, when drop is called, or when the ctx of Start ends. No other lock is acquired while mu
// is held.
type connections struct {
	// exited is called when the process of a broker epoch has exited. It can block until ctx ends.
	exited func(ctx context.Context, key types.NamespacedName, epoch int64)

	mu struct {
		sync.Mutex
		ctx     context.Context // the ctx of Start; nil while Start is not running
		watched map[types.NamespacedName]*watched
	}
	group sync.WaitGroup
}

// watched is a broker epoch to which there is a connection.
type watched struct {
	epoch   int64
	address string
	cancel  context.CancelFunc
}

func newConnections(exited func(context.Context, types.NamespacedName, int64)) *connections {
	c := &connections{exited: exited}
	c.mu.watched = map[types.NamespacedName]*watched{}
	return c
}

// Start implements manager.Runnable. watch opens connections only while Start is running. When ctx
// ends, Start waits until all goroutines have ended.
func (c *connections) Start(ctx context.Context) error {
	c.mu.Lock()
	c.mu.ctx = ctx //nolint:fatcontext // it is the parent context of goroutines that start later
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.mu.ctx = nil
	c.mu.Unlock()
	c.group.Wait()
	return nil
}

// watch opens a connection to a broker epoch unless a connection already exists. The caller calls
// watch at each renewal of the broker's Lease, so a failed attempt is repeated at the next renewal.
//
// config is nil for a broker without TLS.
func (c *connections) watch(key types.NamespacedName, epoch int64, address string,
	config *tls.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, ok := c.mu.watched[key]
	if c.mu.ctx == nil || address == "" || ok && before.epoch == epoch &&
		before.address == address {
		return
	}
	if ok {
		before.cancel()
	}
	ctx, cancel := context.WithCancel(c.mu.ctx)
	entry := &watched{epoch, address, cancel}
	c.mu.watched[key] = entry
	c.group.Go(func() {
		defer cancel()
		if hold(ctx, address, config) {
			c.exited(ctx, key, epoch)
		}
		c.forget(key, entry)
	})
}

// drop closes the connection to a broker.
func (c *connections) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.mu.watched[key]; ok {
		entry.cancel()
		delete(c.mu.watched, key)
	}
}

// forget removes the entry of a goroutine that ends, unless the entry already belongs to a later
// goroutine.
func (c *connections) forget(key types.NamespacedName, entry *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.watched[key] == entry {
		delete(c.mu.watched, key)
	}
}

// hold keeps a connection open until ctx ends or an attempt to connect fails; it reconnects when
// the connection is closed. It reports whether it is proved that the process has exited: a
// connection was established, and a later attempt was refused.
func hold(ctx context.Context, address string, config *tls.Config) (exited bool) {
	connection, err := connect(ctx, address, config)
	if err != nil {
		return false
	}
	for delay := minReconnectDelay; ; delay = min(2*delay, maxReconnectDelay) {
		if established := time.Now(); !waitClosed(ctx, connection) {
			return false
		} else if time.Since(established) > maxReconnectDelay {
			// The connection was usable for a while, so the broker has closed it for another reason, for
			// example because it was idle. The next pause is again the shortest one.
			delay = minReconnectDelay
		}
		if connection, err = connect(ctx, address, config); err != nil {
			return ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// connect opens a connection. A broker closes a connection that does not authenticate in time.
func connect(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || config == nil {
		return connection, err
	}
	timed, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secure := tls.Client(connection, config)
	if err := secure.HandshakeContext(timed); err != nil {
		_ = connection.Close()
		return nil, err
	}
	return secure, nil
}

// waitClosed waits until the peer closes a connection or the connection fails. It returns false if
// ctx ends first.
func waitClosed(ctx context.Context, connection net.Conn) bool {
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	// Read returns when the connection ends, because a broker sends nothing without a request.
	_, _ = connection.Read(make([]byte, 1))
	return ctx.Err() == nil
}
