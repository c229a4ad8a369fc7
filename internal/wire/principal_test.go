package wire

import (
	"context"
	"net"
	"testing"
)

func TestRequestNamesItsListenerAndPrincipal(t *testing.T) {
	s := startServer(t, func(o *Options) { o.Name = "tls" })
	c := s.dial()
	c.send(request(keyEcho, 1, 5, nil))
	c.reply()
	got := <-s.handler.got
	if got.Listener != "tls" || got.Principal() != Anonymous {
		t.Errorf("listener %q and principal %v, want tls and %v", got.Listener, got.Principal(),
			Anonymous)
	}
	if text := got.Principal().String(); text != "User:ANONYMOUS" {
		t.Errorf("got principal %q, want User:ANONYMOUS", text)
	}
}

// dialerFunc implements Dialer with a function.
type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

func TestDialPeerConnectsThroughItsDialer(t *testing.T) {
	s := startServer(t, nil)
	dialed := ""
	dialer := dialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed = address
		return (&net.Dialer{}).DialContext(ctx, network, s.opts.Listener.Addr().String())
	})
	p, err := DialPeer(t.Context(), dialer, "broker-1.invalid:9091", "broker-0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if answer, err := p.Do(t.Context(), echo(1, []byte("x"))); err != nil || string(answer) != "x" {
		t.Errorf("answer %q, error %v", answer, err)
	}
	if dialed != "broker-1.invalid:9091" {
		t.Errorf("got dialed address %q, want broker-1.invalid:9091", dialed)
	}
}
