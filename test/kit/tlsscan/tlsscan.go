// Package tlsscan checks in tests which TLS versions, cipher suites and renegotiations a server
// accepts. It also checks the response to a client that does not use TLS. docs/operate/security.md
// contains the same parameters.
package tlsscan

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// timeout limits one connection of a scan.
const timeout = 30 * time.Second

// Server is a server to scan.
type Server struct {
	Address string
	// Config is the configuration of a client whose handshake succeeds. It must not contain versions
	// or suites.
	Config *tls.Config
	// Certificate checks the server's certificate.
	Certificate func(*x509.Certificate) error
	// NeedsCertificate is set if the server must refuse a client without a certificate.
	NeedsCertificate bool
	// FIPS is set if the server runs with GODEBUG=fips140=on, which accepts fewer suites.
	FIPS bool
}

// suites are the TLS 1.2 cipher suites that a server accepts, by the algorithm of the server's key.
// These are the suites that Go enables. FIPS 140-3 permits the first two suites of each list.
var suites = map[x509.PublicKeyAlgorithm][]uint16{
	x509.ECDSA: {
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA,
	},
	x509.RSA: {
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA,
	},
}

const fipsSuites = 2

// Scan connects to a server in several ways, and reports each connection that the server should
// have refused or accepted.
func Scan(t *testing.T, s *Server) {
	t.Helper()
	s.suites(t, s.versions(t))
	s.withoutTLS(t)
	s.withoutCertificate(t)
	s.renegotiation(t)
}

// connect performs a handshake. The function change changes the client's configuration.
func (s *Server) connect(t *testing.T, change func(*tls.Config)) (*tls.Conn, error) {
	t.Helper()
	config := s.Config.Clone()
	change(config)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, err
	}
	stream, _ := conn.(*tls.Conn)
	t.Cleanup(func() { _ = stream.Close() })
	return stream, nil
}

// versions checks that the server accepts only TLS 1.2 and 1.3, with the expected certificate. It
// returns the algorithm of the server's key.
func (s *Server) versions(t *testing.T) (key x509.PublicKeyAlgorithm) {
	t.Helper()
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12,
		tls.VersionTLS13} {
		conn, err := s.connect(t, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = version, version
		})
		if modern := version >= tls.VersionTLS12; modern != (err == nil) {
			t.Errorf("%s: %s: %v", s.Address, tls.VersionName(version), err)
		} else if !modern && !strings.Contains(err.Error(), "protocol version") {
			t.Errorf("%s: %s is not refused because of its version: %v", s.Address,
				tls.VersionName(version), err)
		}
		if err != nil {
			continue
		}
		certificate := conn.ConnectionState().PeerCertificates[0]
		key = certificate.PublicKeyAlgorithm
		if s.Certificate == nil {
			continue
		}
		if err := s.Certificate(certificate); err != nil {
			t.Errorf("%s: %s: certificate: %v", s.Address, tls.VersionName(version), err)
		}
	}
	return key
}

// suites offers each TLS 1.2 cipher suite separately.
func (s *Server) suites(t *testing.T, key x509.PublicKeyAlgorithm) {
	t.Helper()
	want := suites[key]
	if s.FIPS && want != nil {
		want = want[:fipsSuites]
	}
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		_, err := s.connect(t, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			c.CipherSuites = []uint16{suite.ID}
		})
		if accepted := err == nil; accepted != slices.Contains(want, suite.ID) {
			t.Errorf("%s: %s: %v", s.Address, suite.Name, err)
		}
	}
}

// withoutTLS sends an HTTP request, and a request of the Kafka protocol, without TLS. The server
// can explain the error, but must not process the request.
func (s *Server) withoutTLS(t *testing.T) {
	t.Helper()
	for name, request := range map[string]string{
		"HTTP": "GET /healthz HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n",
		// This is ApiVersions version 0 with correlation id 7.
		"the Kafka protocol": "\x00\x00\x00\x0b\x00\x12\x00\x00\x00\x00\x00\x07\x00\x01a",
	} {
		answer := s.send(t, request)
		if bytes.Contains(answer, []byte("200 OK")) ||
			bytes.Contains(answer, []byte{0, 0, 0, 7, 0, 0}) {
			t.Errorf("%s: %s without TLS is answered: %q", s.Address, name, answer)
		}
	}
}

// send sends bytes without TLS. It returns the bytes that the server sends until it closes the
// connection.
func (s *Server) send(t *testing.T, request string) []byte {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if isTimeout(err) {
		t.Errorf("%s: the server does not close a connection without TLS: %q", s.Address, answer)
	}
	return answer // a reset closes the connection, too
}

// withoutCertificate connects without a client certificate.
func (s *Server) withoutCertificate(t *testing.T) {
	t.Helper()
	if !s.NeedsCertificate {
		return
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := s.connect(t, func(c *tls.Config) {
			c.MinVersion, c.MaxVersion, c.Certificates = version, version, nil
		})
		if err == nil { // in TLS 1.3, the first read returns the refusal
			_ = conn.SetReadDeadline(time.Now().Add(timeout))
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || isTimeout(err) {
			t.Errorf("%s: %s: a client without a certificate is not refused: %v", s.Address,
				tls.VersionName(version), err)
		}
	}
}

// renegotiation requests another handshake in an open TLS 1.2 connection (CVE-2009-3555,
// CVE-2011-1473). It runs OpenSSL, because Go cannot request a renegotiation.
func (s *Server) renegotiation(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil || s.NeedsCertificate {
		t.Logf("%s: renegotiation is not checked: %v", s.Address, err)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, "s_client", "-connect", s.Address, "-tls1_2",
		"-legacy_server_connect")
	command.Stdin = strings.NewReader("R\n") // OpenSSL's command to renegotiate
	out, err := command.CombinedOutput()
	if !bytes.Contains(out, []byte("RENEGOTIATING")) {
		t.Errorf("%s: openssl has not requested another handshake: %v\n%s", s.Address, err, out)
	}
	if err == nil {
		t.Errorf("%s: another handshake in the same connection succeeded:\n%s", s.Address, out)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
