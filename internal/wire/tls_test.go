package wire

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/certs"
)

// byName returns a session whose principal is the common name in the client certificate.
func byName(state *tls.ConnectionState) (*Session, error) {
	name := state.PeerCertificates[0].Subject.CommonName
	if name == "refused" {
		return nil, errors.New("name is refused")
	}
	return &Session{Principal: Principal{Type: "User", Name: name}, Mechanism: MechanismTLS}, nil
}

// mutual returns the security of a listener that requires client certificates from a CA.
func mutual(brokers, users *certs.CA) Security {
	config := serverTLS(brokers)
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, users.Pool()
	config.SessionTicketsDisabled = true
	return Security{TLS: func() *tls.Config { return config }, Certificate: byName,
		FailureDelay: time.Millisecond}
}

func clientTLS(ca *certs.CA, certificates ...tls.Certificate) *tls.Config {
	return &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: certificates,
		MinVersion: tls.VersionTLS12}
}

func TestScramOverTLS(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	security := scramSecurity(t)
	security.TLS = func() *tls.Config { return config }
	s := startSecure(t, security)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		dial := clientTLS(ca)
		dial.MaxVersion = version
		c, err := s.dialTLS(dial)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.login("alice", "secret"); got.code != 0 {
			t.Fatalf("login: %+v", got)
		}
		if got := s.echo(c); got.String() != "User:alice" {
			t.Errorf("principal is %v", got)
		}
	}
	old := clientTLS(ca)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := s.dialTLS(old); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestTLSWithoutAuthenticationIsAnonymous(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	s := startSecure(t, Security{TLS: func() *tls.Config { return config }})
	c, err := s.dialTLS(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.echo(c); got != Anonymous {
		t.Errorf("principal is %v", got)
	}
}

func TestClientCertificateAuthenticates(t *testing.T) {
	brokers, users := certs.New(t, "brokers"), certs.New(t, "users")
	s := startSecure(t, mutual(brokers, users))
	c, err := s.dialTLS(clientTLS(brokers, users.Client(pkix.Name{CommonName: "alice"})))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.echo(c); got.String() != "User:alice" {
		t.Errorf("principal is %v", got)
	}
	sub := users.Intermediate("team")
	c, err = s.dialTLS(clientTLS(brokers, sub.Client(pkix.Name{CommonName: "bob"})))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.echo(c); got.String() != "User:bob" {
		t.Errorf("principal of an intermediate is %v", got)
	}
}

// TestInvalidClientCertificatesAreRefused checks that a CA that the client sends is not trusted,
// that a server certificate cannot authenticate a client, and that a certificate must currently be
// valid.
func TestInvalidClientCertificatesAreRefused(t *testing.T) {
	brokers, users, others := certs.New(t, "brokers"), certs.New(t, "users"), certs.New(t, "users")
	expired := users.Leaf(&x509.Certificate{Subject: pkix.Name{CommonName: "alice"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	foreign := others.Intermediate("team")
	for name, c := range map[string]struct {
		certificates []tls.Certificate
		text         string
	}{
		"none":         {nil, "client sent no certificate"},
		"other CA":     {[]tls.Certificate{others.Client(pkix.Name{CommonName: "alice"})}, "certificate of the client is invalid"},
		"own chain":    {[]tls.Certificate{foreign.Client(pkix.Name{CommonName: "alice"})}, "certificate of the client is invalid"},
		"brokers' CA":  {[]tls.Certificate{brokers.Client(pkix.Name{CommonName: "alice"})}, "client sent no certificate"},
		"server only":  {[]tls.Certificate{users.Server("alice")}, "incompatible key usage"},
		"expired":      {[]tls.Certificate{expired}, "expired"},
		"refused name": {[]tls.Certificate{users.Client(pkix.Name{CommonName: "refused"})}, "name is refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSecure(t, mutual(brokers, users))
			if conn, err := s.dialTLS(clientTLS(brokers, c.certificates...)); err == nil {
				conn.wantClosed() // in TLS 1.3, the client notices it only after the handshake
			}
			s.eventually(func() bool { return strings.Contains(s.log.String(), c.text) },
				"the log does not contain "+c.text)
		})
	}
}

// TestNewCertificateNeedsNoRestart changes the certificate between two connections. The second one
// must get the new certificate, and the first one must stay open.
func TestNewCertificateNeedsNoRestart(t *testing.T) {
	first, second := certs.New(t, "first"), certs.New(t, "second")
	var current atomic.Pointer[tls.Config]
	current.Store(serverTLS(first))
	s := startSecure(t, Security{TLS: current.Load})
	before, err := s.dialTLS(clientTLS(first))
	if err != nil {
		t.Fatal(err)
	}
	current.Store(serverTLS(second))
	after, err := s.dialTLS(clientTLS(second))
	if err != nil {
		t.Fatalf("with the new CA: %v", err)
	}
	s.echo(after)
	s.echo(before)
	if _, err := s.dialTLS(clientTLS(first)); err == nil {
		t.Error("the old certificate is still sent")
	}
}

// TestSessionTicketsDoNotOutliveTheCA checks that a TLS session cannot be resumed after the users'
// CA has changed.
func TestSessionTicketsDoNotOutliveTheCA(t *testing.T) {
	brokers, users, next := certs.New(t, "brokers"), certs.New(t, "users"), certs.New(t, "users2")
	var current atomic.Pointer[tls.Config]
	security := mutual(brokers, users)
	current.Store(security.TLS())
	security.TLS = current.Load
	s := startSecure(t, security)
	dial := clientTLS(brokers, users.Client(pkix.Name{CommonName: "alice"}))
	dial.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	c, err := s.dialTLS(dial)
	if err != nil {
		t.Fatal(err)
	}
	s.echo(c) // reads the session ticket, if there is one
	changed := current.Load().Clone()
	changed.ClientCAs = next.Pool()
	current.Store(changed)
	if c, err := s.dialTLS(dial); err == nil {
		c.wantClosed()
	}
}

func TestOtherProtocolsOnATLSPort(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	for name, c := range map[string]struct{ sent, reason, text string }{
		"http":  {"GET / HTTP/1.1\r\n\r\n", rejectHTTP, "looks like HTTP"},
		"kafka": {string(request(keyEcho, 1, 1, []byte("xxxxxxxx"))), rejectPlain, "SASL_SSL"},
		"other": {"SSH-2.0-OpenSSH_9.9\r\n", rejectPlain, "no TLS record"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSecure(t, Security{TLS: func() *tls.Config { return config }})
			conn := s.dial()
			conn.send([]byte(c.sent))
			s.eventually(func() bool { return strings.Contains(s.log.String(), c.text) },
				"the log does not contain "+c.text)
		})
	}
}

func TestSlowHandshakesAreEnded(t *testing.T) {
	config := serverTLS(certs.New(t, "brokers"))
	s := startSecure(t, Security{TLS: func() *tls.Config { return config },
		HandshakeTimeout: 20 * time.Millisecond})
	s.dial().wantClosed()
	s.eventually(func() bool { return strings.Contains(s.log.String(), "handshake took too long") },
		"no handshake was ended")
}

// TestSilentPeersDoNotDelayHandshakes checks that silent peers occupy no place in handshakeGate.
func TestSilentPeersDoNotDelayHandshakes(t *testing.T) {
	ca := certs.New(t, "brokers")
	config := serverTLS(ca)
	s := startSecure(t, Security{TLS: func() *tls.Config { return config }})
	for range 2 * cap(handshakeGate) {
		s.dial()
	}
	c, err := s.dialTLS(clientTLS(ca))
	if err != nil {
		t.Fatal(err)
	}
	s.echo(c)
}
