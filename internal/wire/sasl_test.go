package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/xdg-go/scram"

	"heartwood.dev/heartwood/internal/sasl"
)

func TestScramAuthenticatesAConnection(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	c := s.dial()
	if got := c.login("alice", "secret"); got.code != 0 || got.lifetime != 0 {
		t.Fatalf("login: %+v", got)
	}
	if got := s.echo(c); got.String() != "User:alice" {
		t.Errorf("principal is %v", got)
	}
	if n := testutil.ToFloat64(s.metrics.authentications.WithLabelValues("test", sasl.ScramSHA512,
		"success")); n != 1 {
		t.Errorf("%v authentications were counted", n)
	}
}

// TestHandshakeVersion0PrecedesBareTokens checks that after a SaslHandshake of version 0, the
// mechanism's messages have no request header (KIP-43). KIP-896 keeps this version.
func TestHandshakeVersion0PrecedesBareTokens(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	c := s.dial()
	if code := c.handshake(0, sasl.ScramSHA256); code != 0 {
		t.Fatalf("handshake: error %d", code)
	}
	library, err := scram.SHA256.NewClient("bob", "other", "")
	if err != nil {
		t.Fatal(err)
	}
	talk := library.NewConversation()
	message, _ := talk.Step("")
	for range 2 {
		c.send(append(kbin.AppendInt32(nil, int32(len(message))), message...))
		reply := c.bare()
		if message, err = talk.Step(reply); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.echo(c); got.String() != "User:bob" {
		t.Errorf("principal is %v", got)
	}
	failing := s.dial()
	failing.handshake(0, sasl.ScramSHA256)
	failing.send(append(kbin.AppendInt32(nil, 3), "n,,"...))
	failing.wantClosed() // a failure has no response
}

// bare reads a message without a response header.
func (c *client) bare() string {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		c.t.Fatal(err)
	}
	message := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, message); err != nil {
		c.t.Fatal(err)
	}
	return string(message)
}

func TestAuthenticateFirstIsIllegalState(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	c := s.dial()
	if got := c.authenticate("n,,n=alice,r=abc"); got.code != codeIllegalState {
		t.Errorf("got %+v", got)
	}
	c.wantClosed()
}

func TestMechanismMustBeEnabled(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	for _, mechanism := range []string{"PLAIN", sasl.OAuthBearer, "", "GSSAPI"} {
		c := s.dial()
		if code := c.handshake(1, mechanism); code != codeUnsupportedMechanism {
			t.Errorf("%q: error %d", mechanism, code)
		}
		c.wantClosed()
	}
}

// TestWrongPasswordAndUnknownUserLookAlike checks that the whole responses for a wrong password and
// for an unknown user are the same.
func TestWrongPasswordAndUnknownUserLookAlike(t *testing.T) {
	security := scramSecurity(t)
	security.FailureDelay = 30 * time.Millisecond
	s := startSecure(t, security)
	begin := time.Now()
	wrong := s.dial().login("alice", "wrong")
	if took := time.Since(begin); took < security.FailureDelay {
		t.Errorf("a failure was answered after %v", took)
	}
	unknown := s.dial().login("nobody", "wrong")
	if wrong.code != codeAuthenticationFailed || wrong.code != unknown.code ||
		wrong.text != unknown.text || !bytes.Equal(wrong.message, unknown.message) {
		t.Errorf("wrong password: %+v, unknown user: %+v", wrong, unknown)
	}
	s.eventually(func() bool { return strings.Contains(s.log.String(), "unknown user") },
		"the failure is not logged")
	if strings.Contains(s.log.String(), "wrong\"") || strings.Contains(s.log.String(), "p=") {
		t.Errorf("the log contains a password or proof: %s", s.log.String())
	}
}

func TestRequestsBeforeAuthenticationAreRefused(t *testing.T) {
	security := scramSecurity(t)
	for name, c := range map[string]struct {
		send         []byte
		reason, text string
	}{
		"other API": {request(keyEcho, 1, 1, []byte("x")), rejectUnauthenticated,
			"before authentication"},
		"large frame": {kbin.AppendInt32(nil, authFrameMax+1), rejectTooLarge, "65536"},
		"negative":    {kbin.AppendInt32(nil, -1), rejectTooLarge, "frame size -1"},
		"short":       {kbin.AppendInt32(nil, 0), rejectHeader, "malformed"},
		"http":        {[]byte("GET / HTTP/1.1\r\n\r\n"), rejectHTTP, "looks like HTTP"},
		"tls":         {[]byte{0x16, 3, 1, 0, 200, 1}, rejectTLS, "TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSecure(t, security)
			conn := s.dial()
			conn.send(c.send)
			s.wantRejected(conn, c.reason, c.text)
		})
	}
}

func TestSlowAuthenticationIsEnded(t *testing.T) {
	security := scramSecurity(t)
	security.AuthenticationTimeout = 100 * time.Millisecond
	s := startSecure(t, security)
	c := s.dial()
	frame := request0(keySaslHandshake, 1, 1, kbin.AppendString(nil, sasl.ScramSHA512))
	go func() {
		for _, b := range frame[:len(frame)-1] { // send one byte at a time
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	s.wantRejected(c, rejectUnauthenticated, "not authenticated within")
}

func TestUnauthenticatedConnectionsAreLimited(t *testing.T) {
	security := scramSecurity(t)
	security.UnauthenticatedPerAddressMax = 2
	s := startSecure(t, security)
	first := s.dial()
	second := s.dial()
	s.eventually(func() bool { return len(s.unauthenticated) == 2 }, "two are not counted")
	s.dial().wantClosed()
	for _, c := range []*client{first, second} { // authenticated connections do not count
		if got := c.login("alice", "secret"); got.code != 0 {
			t.Fatalf("login: %+v", got)
		}
		s.echo(c)
	}
	if got := s.dial().login("alice", "secret"); got.code != 0 {
		t.Errorf("after two have authenticated: %+v", got)
	}
}

func FuzzFramesBeforeAuthentication(f *testing.F) {
	security := scramSecurity(f)
	f.Add(request0(keySaslHandshake, 1, 1, kbin.AppendString(nil, sasl.ScramSHA512)))
	f.Add(request0(keySaslAuthenticate, 1, 1, kbin.AppendBytes(nil, []byte("n,,n=a,r=b"))))
	f.Add(request(keySaslAuthenticate, 2, 1, kbin.AppendCompactBytes(nil, []byte("x"))))
	f.Fuzz(func(t *testing.T, content []byte) {
		x := &saslExchange{security: &security}
		for len(content) >= prefixBytes {
			head := parsePrefix([prefixBytes]byte(content))
			content = content[prefixBytes:]
			n := min(len(content), int(uint16(head.correlationID)))
			var got answered
			if head.key%2 == 0 {
				got = x.handshake(head.version, content[:n])
			} else {
				got = x.authenticate(time.Now(), head.version, content[:n])
			}
			if got.session != nil {
				t.Fatal("authenticated without the password")
			}
			content = content[n:]
		}
	})
}
