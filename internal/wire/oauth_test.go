package wire

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/sasl"
)

// namedTokens accepts the tokens alice and bob for half an hour. For the token later, it returns
// the error for keys that are not known yet.
type namedTokens struct{}

func (namedTokens) Verify(now time.Time, token string) (sasl.Identity, error) {
	switch token {
	case "alice", "bob":
		return sasl.Identity{Name: token, Expires: now.Add(30 * time.Minute)}, nil
	case "later":
		return sasl.Identity{}, sasl.ErrNoKeys
	}
	return sasl.Identity{}, errors.New("signature of the token is invalid")
}

// tokenSecurity returns the security of a listener without TLS on which clients authenticate with
// tokens or passwords.
func tokenSecurity(t *testing.T) Security {
	security := scramSecurity(t)
	options := *security.SASL()
	options.Tokens = namedTokens{}
	security.Mechanisms = append(security.Mechanisms, sasl.OAuthBearer)
	security.SASL = func() *sasl.Options { return &options }
	return security
}

// bearer authenticates with a token and returns the first response.
func (c *client) bearer(token string) authenticated {
	c.t.Helper()
	if code := c.handshake(1, sasl.OAuthBearer); code != 0 {
		return authenticated{code: code}
	}
	return c.authenticate("n,,\x01auth=Bearer " + token + "\x01\x01")
}

// TestTrap7SessionOfATokenIsExtendedByItsPrincipalOnly checks that a session ends when its token
// expires (KIP-368). The client may reauthenticate with another token for the same principal, but
// not as another principal or with another mechanism.
func TestTrap7SessionOfATokenIsExtendedByItsPrincipalOnly(t *testing.T) {
	s := startSecure(t, tokenSecurity(t))
	start := func() *client {
		t.Helper()
		c := s.dial()
		if got := c.bearer("alice"); got.code != 0 ||
			got.lifetime != (30*time.Minute).Milliseconds() {
			t.Fatalf("login: %+v", got)
		}
		if got := s.echo(c); got.String() != "User:alice" {
			t.Fatalf("principal is %v", got)
		}
		s.age(29 * time.Minute)
		return c
	}
	c := start()
	if got := c.bearer("alice"); got.code != 0 ||
		got.lifetime != (30*time.Minute).Milliseconds() {
		t.Fatalf("re-authentication: %+v", got)
	}
	s.echo(c) // the session starts after the response
	s.age(2 * time.Minute)
	s.echo(c)
	s.age(29 * time.Minute)
	c.send(request(keyEcho, 1, 3, []byte("x")))
	s.wantRejected(c, rejectExpired, "not authenticated again")

	c = start()
	if got := c.bearer("bob"); got.code != codeAuthenticationFailed {
		t.Errorf("another principal: %+v", got)
	}
	c.wantClosed()
	c = start()
	if code := c.handshake(1, sasl.ScramSHA512); code != codeUnsupportedMechanism {
		t.Errorf("another mechanism: code %d", code)
	}
	c.wantClosed()
}

// TestTokenFailureIsAnsweredTwice checks that the server sends a response with the error before the
// authentication fails, as RFC 7628 requires.
func TestTokenFailureIsAnsweredTwice(t *testing.T) {
	s := startSecure(t, tokenSecurity(t))
	c := s.dial()
	if got := c.bearer("forged"); got.code != 0 ||
		!strings.Contains(string(got.message), "invalid_token") {
		t.Fatalf("first response: %+v", got)
	}
	if got := c.authenticate("\x01"); got.code != codeAuthenticationFailed ||
		strings.Contains(got.text, "signature") {
		t.Errorf("second response: %+v", got)
	}
	c.wantClosed()
	if strings.Contains(s.log.String(), "forged") {
		t.Error("the log contains the token")
	}
}

// TestUnknownKeysCloseTheConnection checks that the connection is closed if the keys are not known
// yet. Clients would treat an error response as final, but reconnect after a disconnection. The
// disconnection must not count as a failed authentication.
func TestUnknownKeysCloseTheConnection(t *testing.T) {
	s := startSecure(t, tokenSecurity(t))
	for range failuresMax + 5 {
		c := s.dial()
		if code := c.handshake(1, sasl.OAuthBearer); code != 0 {
			t.Fatalf("handshake: code %d", code)
		}
		message := "n,,\x01auth=Bearer later\x01\x01"
		c.send(request0(keySaslAuthenticate, 1, 2,
			append([]byte{0, 0, 0, byte(len(message))}, message...)))
		c.wantClosed()
	}
	s.eventually(func() bool {
		return testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test",
			rejectNoKeys)) == failuresMax+5
	}, "connections were not counted")
	if n := strings.Count(s.log.String(), "cannot be verified"); n != 1 ||
		strings.Contains(s.log.String(), "invalid request") {
		t.Errorf("%d messages in the log:\n%s", n, s.log.String())
	}
	if got := s.dial().bearer("alice"); got.code != 0 {
		t.Errorf("a valid token afterwards: %+v", got)
	}
}
