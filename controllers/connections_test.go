package controllers

import (
	"context"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/internal/placement"
)

// waiting is far beyond what anything here takes.
const waiting = 30 * time.Second

// door is a listener, and the connections that it has taken.
type door struct {
	net.Listener
	taken chan net.Conn
}

func openDoor(t *testing.T) *door {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener, make(chan net.Conn, 100)}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			d.taken <- connection
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return d
}

// take waits for the next connection.
func (d *door) take(t *testing.T) net.Conn {
	t.Helper()
	select {
	case connection := <-d.taken:
		return connection
	case <-time.After(waiting):
		t.Fatal("nobody connects")
		return nil
	}
}

// startConnections returns what runs until t ends, and the epochs of which it says that they ended.
func startConnections(t *testing.T) (*connections, <-chan int64) {
	t.Helper()
	ended := make(chan int64, 10)
	c := newConnections(func(_ context.Context, _ types.NamespacedName,
		epoch int64) {
		ended <- epoch
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-stopped
	})
	for deadline := time.Now().Add(waiting); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		started := c.mu.ctx != nil
		c.mu.Unlock()
		if started {
			return c, ended
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
}

var brokerZero = types.NamespacedName{Namespace: "logs", Name: "demo-broker-0"}

func TestTheEndOfAProcessIsSeen(t *testing.T) {
	c, ended := startConnections(t)
	d := openDoor(t)
	c.watch(brokerZero, 7, d.Addr().String())
	first := d.take(t)
	_ = first.Close() // idle for too long, say: the listener is there still, so it connects again
	second := d.take(t)
	select {
	case epoch := <-ended:
		t.Fatalf("incarnation %d counts as ended while it listens", epoch)
	default:
	}
	_ = d.Close()
	_ = second.Close()
	select {
	case epoch := <-ended:
		if epoch != 7 {
			t.Errorf("incarnation %d ended, want 7", epoch)
		}
	case <-time.After(waiting):
		t.Fatal("the end is not seen")
	}
}

// Nothing is proved by a listener that never took a connection, and of an incarnation that nobody
// asks about any more.
func TestOnlyARefusalAfterAConnectionCounts(t *testing.T) {
	c, ended := startConnections(t)
	closedDoor, d := openDoor(t), openDoor(t)
	_ = closedDoor.Close()
	c.watch(types.NamespacedName{Namespace: "logs", Name: "demo-broker-1"}, 1,
		closedDoor.Addr().String())
	c.watch(brokerZero, 7, d.Addr().String())
	first := d.take(t)
	c.watch(brokerZero, 8, d.Addr().String())
	second := d.take(t)
	c.drop(brokerZero)
	_ = d.Close()
	_, _ = first.Close(), second.Close()
	c.group.Wait()
	select {
	case epoch := <-ended:
		t.Errorf("incarnation %d counts as ended", epoch)
	default:
	}
}

// A goroutine that ends late does not take the connection with it that another one holds to the
// same incarnation: nobody could end that.
func TestAnEndIsForgottenOfItsOwnConnection(t *testing.T) {
	c, _ := startConnections(t)
	d := openDoor(t)
	watched := func() *watched {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.mu.watched[brokerZero]
	}
	c.watch(brokerZero, 7, d.Addr().String())
	first := watched()
	c.drop(brokerZero)
	c.watch(brokerZero, 7, d.Addr().String())
	second := watched()
	c.forget(brokerZero, first)
	if watched() != second {
		t.Error("the second connection is forgotten with the first")
	}
}

// A connection's word counts until the Lease is renewed, and never again for an incarnation of
// which it was wrong.
func TestAConnectionsWordIsNotAgainstARenewal(t *testing.T) {
	b := newBrokers(nil, nil)
	renewed := func(at time.Duration, epoch int32) {
		b.update(brokerZero, leaseAt("a", noon.Add(at), epoch),
			func(before sighting, _ time.Time) sighting {
				return observe(before, leaseAt("a", noon.Add(at), epoch), noon.Add(at))
			})
	}
	life := func() placement.Liveness { return b.mu.seen[brokerZero].state(noon.Add(time.Second)).Liveness }
	renewed(0, 3)
	b.end(brokerZero, 2) // of an earlier incarnation
	if got := life(); got != placement.Up {
		t.Errorf("life %d after word of another incarnation", got)
	}
	b.end(brokerZero, 3)
	if got := life(); got != placement.Down {
		t.Errorf("life %d after its process ended", got)
	}
	renewed(time.Second, 3)
	b.end(brokerZero, 3)
	if got := life(); got != placement.Up {
		t.Errorf("life %d of one that has proved to live", got)
	}
	renewed(2*time.Second, 4)
	b.end(brokerZero, 4)
	if got := life(); got != placement.Down {
		t.Errorf("life %d after the next incarnation ended", got)
	}
}
