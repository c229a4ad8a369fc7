package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/xdg-go/scram"

	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/certs"
)

// passwords returns SASL options for SCRAM users. users contains the passwords by name.
func passwords(t testing.TB, users map[string]string) func() *sasl.Options {
	t.Helper()
	verifiers := map[string][]sasl.Verifier{}
	for user, password := range users {
		for _, mechanism := range []string{sasl.ScramSHA256, sasl.ScramSHA512} {
			v, err := sasl.NewVerifier(mechanism, password, bytes.Repeat([]byte{1}, sasl.SaltBytes),
				sasl.IterationsDefault)
			if err != nil {
				t.Fatal(err)
			}
			verifiers[mechanism+" "+user] = []sasl.Verifier{v}
		}
	}
	o := &sasl.Options{UnknownKey: []byte("key"), Verifiers: func(m, user string) []sasl.Verifier {
		return verifiers[m+" "+user]
	}}
	return func() *sasl.Options { return o }
}

// scramSecurity returns the security of a listener without TLS for clients of users alice and bob,
// who authenticate with SCRAM.
func scramSecurity(t testing.TB) Security {
	return Security{Mechanisms: []string{sasl.ScramSHA256, sasl.ScramSHA512},
		SASL:         passwords(t, map[string]string{"alice": "secret", "bob": "other"}),
		FailureDelay: time.Millisecond}
}

func startSecure(t *testing.T, security Security) *testServer {
	t.Helper()
	return startServer(t, func(o *Options) {
		o.Security = security
		o.Linger = time.Millisecond // most tests wait until the server closes the connection
	})
}

// serverTLS returns the TLS configuration of a test's listener.
func serverTLS(ca *certs.CA) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{ca.Server("broker")},
		MinVersion: tls.VersionTLS12}
}

// dialTLS connects with TLS. It does not fail the test if the handshake fails.
func (s *testServer) dialTLS(config *tls.Config) (*client, error) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.opts.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	stream := tls.Client(conn, config)
	s.t.Cleanup(func() { _ = stream.Close() })
	return &client{stream, s.t}, stream.Handshake()
}

// handshake sends SaslHandshake and returns the error code.
func (c *client) handshake(version int16, mechanism string) int16 {
	c.t.Helper()
	c.send(request0(keySaslHandshake, version, 1, kbin.AppendString(nil, mechanism)))
	_, body := c.reply()
	return int16(binary.BigEndian.Uint16(body))
}

// request0 encodes a request with header version 1.
func request0(key, version int16, correlation int32, body []byte) []byte {
	b := kbin.AppendInt32(kbin.AppendInt16(kbin.AppendInt16(nil, key), version), correlation)
	id := "tester"
	b = append(kbin.AppendNullableString(b, &id), body...)
	return append(kbin.AppendInt32(nil, int32(len(b))), b...)
}

// authenticated is the content of a SaslAuthenticate response of version 1.
type authenticated struct {
	code     int16
	text     string
	message  []byte
	lifetime int64
}

// authenticate sends SaslAuthenticate, version 1.
func (c *client) authenticate(message string) (a authenticated) {
	c.t.Helper()
	c.send(request0(keySaslAuthenticate, 1, 2, kbin.AppendBytes(nil, []byte(message))))
	_, body := c.reply()
	r := kbin.Reader{Src: body}
	a.code = r.Int16()
	if text := r.NullableString(); text != nil {
		a.text = *text
	}
	a.message, a.lifetime = r.Bytes(), r.Int64()
	if !r.Ok() || len(r.Src) != 0 {
		c.t.Fatalf("malformed response %q", body)
	}
	return a
}

// login authenticates with SCRAM-SHA-512 and returns the last response.
func (c *client) login(user, password string) authenticated {
	c.t.Helper()
	if code := c.handshake(1, sasl.ScramSHA512); code != 0 {
		return authenticated{code: code}
	}
	return c.scram(user, password)
}

// scram sends the messages for SCRAM-SHA-512.
func (c *client) scram(user, password string) authenticated {
	c.t.Helper()
	library, err := scram.SHA512.NewClient(user, password, "")
	if err != nil {
		c.t.Fatal(err)
	}
	talk := library.NewConversation()
	first, err := talk.Step("")
	if err != nil {
		c.t.Fatal(err)
	}
	got := c.authenticate(first)
	if got.code != 0 {
		return got
	}
	final, err := talk.Step(string(got.message))
	if err != nil {
		c.t.Fatal(err)
	}
	return c.authenticate(final)
}

// echo sends a request and returns the principal that the handler received.
func (s *testServer) echo(c *client) Principal {
	s.t.Helper()
	c.send(request(keyEcho, 1, 3, []byte("x")))
	if _, body := c.reply(); string(body) != "x" {
		s.t.Fatalf("echo returned %q", body)
	}
	got := <-s.handler.got
	return got.Principal()
}

// wantRejected waits until a connection is rejected with the reason and the text appears in the
// log.
func (s *testServer) wantRejected(c *client, reason, text string) {
	s.t.Helper()
	c.wantClosed()
	s.eventually(func() bool {
		return testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test", reason)) == 1 &&
			strings.Contains(s.log.String(), text)
	}, "no connection was rejected as "+reason+" with "+text)
}

func (s *testServer) eventually(done func() bool, what string) {
	s.t.Helper()
	await.For(s.t, func() string {
		if done() {
			return ""
		}
		return what + "; log:\n" + s.log.String()
	})
}
