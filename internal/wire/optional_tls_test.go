package wire

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/test/kit/certs"
)

// TestPlainPeersAreRefusedAfterTheMigration checks trap 28 of docs/internals/attacks.md: while some
// brokers have no certificate, a listener accepts connections with and without TLS; afterwards it
// accepts only TLS. A peer without TLS is always anonymous.
func TestPlainPeersAreRefusedAfterTheMigration(t *testing.T) {
	brokers, peers := certs.New(t, "brokers"), certs.New(t, "peers")
	var migrates atomic.Bool
	migrates.Store(true)
	security := mutual(brokers, peers)
	security.Plain = migrates.Load
	s := startSecure(t, security)
	withTLS := func() *client {
		c, err := s.dialTLS(clientTLS(brokers, peers.Client(pkix.Name{CommonName: "broker-1"})))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	plain := s.dial()
	if got := s.echo(plain); got != Anonymous {
		t.Errorf("principal without TLS is %v", got)
	}
	if got := s.echo(withTLS()); got.Name != "broker-1" {
		t.Errorf("principal with TLS is %v", got)
	}
	migrates.Store(false)
	if got := s.echo(withTLS()); got.Name != "broker-1" {
		t.Errorf("principal with TLS is %v", got)
	}
	late := s.dial()
	late.send(request(keyEcho, 1, 1, []byte("xxxxxxxx")))
	s.wantRejected(late, rejectPlain, "SASL_SSL")
}

// TestSilentPeersAreEnded checks that a listener that accepts connections with and without TLS
// waits for the first byte no longer than for a handshake.
func TestSilentPeersAreEnded(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	s := startSecure(t, Security{TLS: func() *tls.Config { return config },
		Plain: func() bool { return true }, HandshakeTimeout: 20 * time.Millisecond})
	s.wantRejected(s.dial(), rejectHandshake, "client has sent nothing")
}

// TestSingleByteRecordsAreEnded checks trap 26: if a client sends each byte of a request in a
// separate TLS record, the connection ends after the authentication timeout, whatever has arrived.
func TestSingleByteRecordsAreEnded(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	security := scramSecurity(t)
	security.TLS = func() *tls.Config { return config }
	security.AuthenticationTimeout = time.Second
	s := startSecure(t, security)
	frame := request0(keySaslHandshake, 1, 1, kbin.AppendString(nil, sasl.ScramSHA512))
	// On a busy machine, the handshake alone may exceed the timeout; then try another client.
	s.eventually(func() bool {
		c, err := s.dialTLS(clientTLS(ca))
		for _, b := range frame[:len(frame)-1] {
			if err == nil {
				_, err = c.Write([]byte{b})
				time.Sleep(10 * time.Millisecond)
			}
		}
		c.wantClosed()
		return strings.Contains(s.log.String(), "not authenticated within")
	}, "no connection was ended before it authenticated")
}

// serves reports whether the server replies to a request.
func (s *testServer) serves(c *client) bool {
	if _, err := c.Write(request(keyEcho, 1, 1, nil)); err != nil {
		return false
	}
	if n, err := c.Read(make([]byte, 100)); n == 0 || err != nil {
		return false
	}
	<-s.handler.got
	return true
}

// TestSilentPeersWithACertificateStayConnected checks trap 24: the timeouts for handshake and
// authentication do not close an idle connection. The operator keeps an idle connection to each
// broker, and concludes from its end that the broker has stopped.
func TestSilentPeersWithACertificateStayConnected(t *testing.T) {
	brokers, peers := certs.New(t, "brokers"), certs.New(t, "peers")
	security := mutual(brokers, peers)
	security.HandshakeTimeout, security.AuthenticationTimeout = time.Second, time.Second
	s := startSecure(t, security)
	config := clientTLS(brokers, peers.Client(pkix.Name{CommonName: "operator"}))
	var c *client
	s.eventually(func() bool { // a busy machine may need several attempts
		conn, err := s.dialTLS(config)
		c = conn
		return err == nil && s.serves(c)
	}, "no handshake was in time")
	s.dial().wantClosed() // both timeouts have passed for the first connection
	if got := s.echo(c); got.Name != "operator" {
		t.Errorf("principal is %v", got)
	}
}
