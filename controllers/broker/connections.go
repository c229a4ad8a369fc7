package broker

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// connectTimeout bounds the time to connect to a broker's listener. A timeout proves nothing.
	connectTimeout = time.Second
	// After a connection was closed, the next attempt follows after minReconnectDelay, and after
	// twice the delay for each further time in a row, up to maxReconnectDelay. The first delay is
	// short: while a process exits, its listener may remain for a moment longer than its
	// connections.
	minReconnectDelay = 10 * time.Millisecond
	maxReconnectDelay = time.Second
)

// connections detects at once that a broker process has exited. It holds an idle connection to each
// broker's listener. When a process exits for whatever reason, its kernel closes the connection and
// refuses a new one, as the listener is closed. The kubelet polls about once per second, and
// reports through the API server.
//
// Only a refused connection proves the exit, and only after an earlier connection was established.
// A failed node, a partitioned network or a network policy refuses nothing, or has always refused.
//
// Goroutines: one per broker. It ends when another broker epoch is watched, by drop, or when
// Start's ctx ends. The lock is a leaf.
type connections struct {
	// exited is called when the process of a broker epoch has exited. It may block until ctx ends.
	exited func(ctx context.Context, key types.NamespacedName, epoch int64)

	mu struct {
		sync.Mutex
		ctx     context.Context // Start's; nil while Start is not running
		watched map[types.NamespacedName]*watched
	}
	group sync.WaitGroup
}

// watched is a broker epoch that a connection is held to.
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

// Start implements manager.Runnable. It allows connections until ctx ends, then waits until all
// goroutines have ended.
func (c *connections) Start(ctx context.Context) error {
	c.mu.Lock()
	c.mu.ctx = ctx //nolint:fatcontext // it is the parent of goroutines that start later
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.mu.ctx = nil
	c.mu.Unlock()
	c.group.Wait()
	return nil
}

// watch ensures that there is a connection to a broker epoch. It is called at each renewal, which
// is when a failed connection attempt is repeated.
func (c *connections) watch(key types.NamespacedName, epoch int64, address string) {
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
	of := &watched{epoch, address, cancel}
	c.mu.watched[key] = of
	c.group.Go(func() {
		defer cancel()
		if hold(ctx, address) {
			c.exited(ctx, key, epoch)
		}
		c.forget(key, of)
	})
}

// drop closes the connection to a broker.
func (c *connections) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of, ok := c.mu.watched[key]; ok {
		of.cancel()
		delete(c.mu.watched, key)
	}
}

// forget removes the entry of a goroutine that ends, unless another goroutine has replaced it.
func (c *connections) forget(key types.NamespacedName, of *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.watched[key] == of {
		delete(c.mu.watched, key)
	}
}

// hold keeps a connection open, and opens it again when it is closed, until ctx ends or an attempt
// fails. hold reports whether the process has provably exited: a connection was established, and a
// later one was refused.
func hold(ctx context.Context, address string) (exited bool) {
	connection, err := connect(ctx, address)
	if err != nil {
		return false
	}
	for delay := minReconnectDelay; ; delay = min(2*delay, maxReconnectDelay) {
		if established := time.Now(); !waitClosed(ctx, connection) {
			return false
		} else if time.Since(established) > maxReconnectDelay {
			// the connection was usable, and was closed for being idle, for example
			delay = minReconnectDelay
		}
		if connection, err = connect(ctx, address); err != nil {
			return ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

func connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}

// waitClosed waits until the peer has closed a connection or it has failed. It returns false if ctx
// ended first.
func waitClosed(ctx context.Context, connection net.Conn) bool {
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	_, _ = connection.Read(make([]byte, 1)) // a broker sends nothing without a request
	return ctx.Err() == nil
}
