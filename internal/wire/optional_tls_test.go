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

// TestPlainPeersAreRefusedAfterTheMigration is trap 28 of docs/security.md: while some brokers
// have no certificate, a listener accepts both kinds of connections, and afterwards only TLS. A
// peer without TLS is anonymous at all times.
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

// TestSilentPeersAreEnded: a listener that accepts both kinds waits for the first byte no longer
// than for a handshake.
func TestSilentPeersAreEnded(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	s := startSecure(t, Security{TLS: func() *tls.Config { return config },
		Plain: func() bool { return true }, HandshakeTimeout: 20 * time.Millisecond})
	s.wantRejected(s.dial(), rejectHandshake, "client has sent nothing")
}

// TestSingleByteRecordsAreEnded is trap 26: each byte of a request is a TLS record of its own. The
// connection ends after the time for authentication, whatever arrives.
func TestSingleByteRecordsAreEnded(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	security := scramSecurity(t)
	security.TLS = func() *tls.Config { return config }
	security.AuthenticationTimeout = time.Second
	s := startSecure(t, security)
	c, err := s.dialTLS(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	frame := request0(keySaslHandshake, 1, 1, kbin.AppendString(nil, sasl.ScramSHA512))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, b := range frame[:len(frame)-1] {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	s.wantRejected(c, rejectUnauthenticated, "not authenticated within")
	<-ended
}

// TestSilentPeersWithACertificateStayConnected is trap 24: the operator holds a connection to each
// broker on which it sends nothing, and takes its end for the end of the broker. The times for
// handshake and authentication must not end it.
func TestSilentPeersWithACertificateStayConnected(t *testing.T) {
	brokers, peers := certs.New(t, "brokers"), certs.New(t, "peers")
	security := mutual(brokers, peers)
	// A busy machine needs more than a tenth of a second for a handshake.
	security.HandshakeTimeout, security.AuthenticationTimeout = 3*time.Second, 2*time.Second
	s := startSecure(t, security)
	c, err := s.dialTLS(clientTLS(brokers, peers.Client(pkix.Name{CommonName: "operator"})))
	if err != nil {
		t.Fatal(err)
	}
	s.dial() // once it is ended, both times have passed for the first connection
	s.eventually(func() bool { return strings.Contains(s.log.String(), "handshake took too long") },
		"no handshake was ended")
	if got := s.echo(c); got.Name != "operator" {
		t.Errorf("principal is %v", got)
	}
}
