package tlsconfig

import (
	"crypto/tls"
	"errors"
	"testing"

	"heartwood.dev/heartwood/test/kit/certs"
)

// TestHandshakes checks that each configuration accepts or rejects a connection according to its
// function, and refuses TLS 1.1.
func TestHandshakes(t *testing.T) {
	certificate, refused := certs.New(t, "ca").Server("broker"), errors.New("refused")
	serve := func(fault error) *tls.Config {
		return ServeFrom(func() (*tls.Certificate, error) { return &certificate, fault })
	}
	choose := func(fault error) *tls.Config {
		return ServeAs(func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return New(certificate), fault
		})
	}
	verify := func(fault error) *tls.Config {
		return VerifyBy(func(tls.ConnectionState) error { return fault })
	}
	older := verify(nil)
	older.MinVersion, older.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for name, test := range map[string]struct {
		server, client *tls.Config
		ok             bool
	}{
		"certificate":                      {New(certificate), verify(nil), true},
		"certificate by function":          {serve(nil), verify(nil), true},
		"configuration by function":        {choose(nil), verify(nil), true},
		"the client refuses":               {New(certificate), verify(refused), false},
		"no certificate":                   {serve(refused), verify(nil), false},
		"no configuration":                 {choose(refused), verify(nil), false},
		"an unknown CA":                    {New(certificate), New(), false},
		"TLS 1.1, certificate":             {New(certificate), older, false},
		"TLS 1.1, certificate by function": {serve(nil), older, false},
	} {
		if err := handshake(t, test.server, test.client); (err == nil) != test.ok {
			t.Errorf("%s: got error %v, want success %t", name, err, test.ok)
		}
	}
}

// handshake connects a client with a server, and returns the client's error.
func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	}()
	client = client.Clone()
	client.ServerName = "broker"
	dialer := tls.Dialer{Config: client}
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err == nil {
		_ = conn.Close()
	}
	return err
}
