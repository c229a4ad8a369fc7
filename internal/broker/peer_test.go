package broker

import (
	"context"
	"net"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestPeerAddressIsPreferred checks that a broker connects to another broker's peer address, even
// if the advertised name cannot be resolved.
func TestPeerAddressIsPreferred(t *testing.T) {
	c := newCluster(t)
	opts := c.options()
	opts.Listen, opts.PeerHost = "127.0.0.1:0", "127.0.0.1"
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	self, err := b.identity()
	if err != nil || self.Peer != b.listeners[0].socket.Addr().String() {
		t.Fatalf("got peer address %q, error %v, want the listener's address %s", self.Peer, err,
			b.listeners[0].socket.Addr())
	}
	var ready net.ListenConfig
	listener, err := ready.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	peer, err := b.dial(t.Context(),
		metadata.Broker{ID: 1, Endpoints: "kafka://broker-1.invalid:9092",
			Peer: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	if _, err := b.dial(t.Context(),
		metadata.Broker{ID: 1, Endpoints: "kafka://broker-1.invalid:9092"}); err == nil ||
		!strings.Contains(err.Error(), "broker-1.invalid") {
		t.Errorf("without a peer address: got error %v, want one about the advertised name", err)
	}
}

// recordingDialer records the dialed address, but always connects to d.to.
type recordingDialer struct {
	to     string
	dialed string
}

func (d *recordingDialer) DialContext(ctx context.Context, network, address string) (net.Conn,
	error) {
	d.dialed = address
	return (&net.Dialer{}).DialContext(ctx, network, d.to)
}

func TestPeersAreDialedByTheBrokersDialer(t *testing.T) {
	c := newCluster(t)
	opts := c.options()
	dialer := &recordingDialer{}
	opts.Listen, opts.Dialer = "127.0.0.1:0", dialer
	b, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	dialer.to = b.listeners[0].socket.Addr().String()
	peer, err := b.dial(t.Context(), metadata.Broker{ID: 1, Endpoints: "kafka://b1.invalid:9092"})
	if err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	if dialer.dialed != "b1.invalid:9092" {
		t.Errorf("got dialed address %q, want the endpoint of the default listener", dialer.dialed)
	}
	if _, err := b.dial(t.Context(),
		metadata.Broker{ID: 1, Endpoints: "tls://b1.invalid:1"}); err == nil {
		t.Error("a broker without an endpoint on the default listener was dialed")
	}
}
