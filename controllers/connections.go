package controllers

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
	// connectTimeout bounds a connection to a broker's listener. One that is not answered proves
	// nothing.
	connectTimeout = time.Second
	// A connection that was closed is made anew after reconnectFirst, twice as long after each
	// further time in a row, up to reconnectLast. The first is short: while a process ends its
	// listener may live for a moment longer than its connections.
	reconnectFirst = 10 * time.Millisecond
	reconnectLast  = time.Second
)

// connections tells at once when a broker's process ends. It holds a connection to each broker's
// listener, on which nothing is ever sent. When a process ends, however it does, its kernel closes
// that connection, and refuses another one: nobody listens any more. The kubelet looks about once a
// second, and its word comes by way of the API server.
//
// Only a refusal counts, and only after there was a connection: a node that is gone, a network that
// is cut or a policy that was there from the begin refuse nothing, or always did.
//
// Goroutines: one a broker, each ended by another incarnation, by drop, or with Start's ctx. The
// lock is a leaf.
type connections struct {
	// may block until ctx ends
	ended func(ctx context.Context, key types.NamespacedName, epoch int64)

	mu struct {
		sync.Mutex
		ctx     context.Context // of Start; nil before: nobody is watched yet
		watched map[types.NamespacedName]*watched
	}
	group sync.WaitGroup
}

// watched is the incarnation that a connection is for.
type watched struct {
	epoch   int64
	address string
	cancel  context.CancelFunc
}

func newConnections(ended func(context.Context, types.NamespacedName, int64)) *connections {
	c := &connections{ended: ended}
	c.mu.watched = map[types.NamespacedName]*watched{}
	return c
}

// Start implements manager.Runnable: connections are there until ctx ends.
func (c *connections) Start(ctx context.Context) error {
	c.mu.Lock()
	c.mu.ctx = ctx //nolint:fatcontext // it is the one that was given, for goroutines that begin later
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.mu.ctx = nil
	c.mu.Unlock()
	c.group.Wait()
	return nil
}

// watch sees to it that there is a connection to a broker. It is asked again with each renewal,
// which is when one that could not be made is tried anew.
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
			c.ended(ctx, key, epoch)
		}
		c.forget(key, of)
	})
}

// drop ends the connection to a broker that is gone.
func (c *connections) drop(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of, ok := c.mu.watched[key]; ok {
		of.cancel()
		delete(c.mu.watched, key)
	}
}

// forget takes in that a goroutine ends; it may be that another one holds a connection to the same
// incarnation since.
func (c *connections) forget(key types.NamespacedName, of *watched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.watched[key] == of {
		delete(c.mu.watched, key)
	}
}

// hold keeps a connection until ctx ends or it cannot be made any more. It tells whether that
// proves the end of the process: there was a connection, and then one was refused.
func hold(ctx context.Context, address string) (ended bool) {
	connection, err := connect(ctx, address)
	if err != nil {
		return false
	}
	for pause := reconnectFirst; ; pause = min(2*pause, reconnectLast) {
		if began := time.Now(); !closed(ctx, connection) {
			return false
		} else if time.Since(began) > reconnectLast {
			pause = reconnectFirst // it was a connection, and has been idle for too long, say
		}
		if connection, err = connect(ctx, address); err != nil {
			return ctx.Err() == nil && errors.Is(err, syscall.ECONNREFUSED)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}

// closed waits until the other side has closed a connection, or fails; false: ctx ended first.
func closed(ctx context.Context, connection net.Conn) bool {
	defer func() { _ = connection.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	_, _ = connection.Read(make([]byte, 1)) // a broker says nothing unasked
	return ctx.Err() == nil
}
