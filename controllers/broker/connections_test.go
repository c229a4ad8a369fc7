package broker

import (
	"context"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/test/kit/await"
)

// timeout is the time limit of a step in these tests. Steps take milliseconds.
const timeout = await.Limit

// acceptor is a listener and its accepted connections.
type acceptor struct {
	net.Listener
	accepted chan net.Conn
}

func listen(t *testing.T) *acceptor {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &acceptor{listener, make(chan net.Conn, 100)}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			a.accepted <- connection
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return a
}

// accept waits for the next connection.
func (a *acceptor) accept(t *testing.T) net.Conn {
	t.Helper()
	select {
	case connection := <-a.accepted:
		return connection
	case <-time.After(timeout):
		t.Fatal("no connection within the timeout")
		return nil
	}
}

// startConnections returns a connections value that runs until t ends, and a channel of the broker
// epochs that it reports as exited.
func startConnections(t *testing.T) (*connections, <-chan int64) {
	t.Helper()
	exited := make(chan int64, 10)
	c := newConnections(func(_ context.Context, _ types.NamespacedName,
		epoch int64) {
		exited <- epoch
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	await.Until(t, "connections started", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.ctx != nil
	})
	return c, exited
}

var brokerZero = types.NamespacedName{Namespace: "logs", Name: "demo-broker-0"}

func TestProcessExitIsDetected(t *testing.T) {
	c, exited := startConnections(t)
	a := listen(t)
	c.watch(brokerZero, 7, a.Addr().String(), nil)
	first := a.accept(t)
	_ = first.Close() // The listener stays open, so connections must reconnect.
	second := a.accept(t)
	select {
	case epoch := <-exited:
		t.Fatalf("got exit of broker epoch %d while it listens, want none", epoch)
	default:
	}
	_ = a.Close()
	_ = second.Close()
	select {
	case epoch := <-exited:
		if epoch != 7 {
			t.Errorf("got exit of broker epoch %d, want 7", epoch)
		}
	case <-time.After(timeout):
		t.Fatal("the exit was not detected")
	}
}

// TestOnlyARefusalAfterAConnectionIsAnExit checks that two cases are not reported as exits: broker
// 1 refuses the first connection, and broker 0 closes its connections after drop.
func TestOnlyARefusalAfterAConnectionIsAnExit(t *testing.T) {
	c, exited := startConnections(t)
	closed, a := listen(t), listen(t)
	_ = closed.Close()
	c.watch(types.NamespacedName{Namespace: "logs", Name: "demo-broker-1"}, 1,
		closed.Addr().String(), nil)
	c.watch(brokerZero, 7, a.Addr().String(), nil)
	first := a.accept(t)
	c.watch(brokerZero, 8, a.Addr().String(), nil)
	second := a.accept(t)
	c.drop(brokerZero)
	_ = a.Close()
	_, _ = first.Close(), second.Close()
	c.group.Wait()
	select {
	case epoch := <-exited:
		t.Errorf("got exit of broker epoch %d, want none", epoch)
	default:
	}
}

// TestGoroutineForgetsItsOwnConnectionOnly checks that a goroutine that ends late does not remove
// the entry of a newer goroutine for the same broker epoch. Without the entry, drop could not
// cancel the newer goroutine.
func TestGoroutineForgetsItsOwnConnectionOnly(t *testing.T) {
	c, _ := startConnections(t)
	a := listen(t)
	watched := func() *watched {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.watched[brokerZero]
	}
	c.watch(brokerZero, 7, a.Addr().String(), nil)
	first := watched()
	c.drop(brokerZero)
	c.watch(brokerZero, 7, a.Addr().String(), nil)
	second := watched()
	c.forget(brokerZero, first)
	if watched() != second {
		t.Error("the second connection was forgotten with the first")
	}
}
