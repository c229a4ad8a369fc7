package wire

import (
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/sasl"
)

// loggedIn returns a connection of alice whose session started a second ago.
func loggedIn(t *testing.T, change func(*Security)) (*testServer, *client) {
	t.Helper()
	security := scramSecurity(t)
	if change != nil {
		change(&security)
	}
	s := startSecure(t, security)
	c := s.dial()
	if got := c.login("alice", "secret"); got.code != 0 {
		t.Fatalf("login: %+v", got)
	}
	s.echo(c)
	s.age(reauthInterval)
	return s, c
}

// age moves the start and the end of all sessions back by the given time.
func (s *testServer) age(by time.Duration) {
	s.open.Lock()
	defer s.open.Unlock()
	for c := range s.open.connections {
		if old := c.session.Load(); old != nil {
			aged := *old
			aged.begun = aged.begun.Add(-by)
			if !aged.Expires.IsZero() {
				aged.Expires = aged.Expires.Add(-by)
			}
			c.session.Store(&aged)
		}
	}
}

func TestReauthenticationExtendsTheSession(t *testing.T) {
	s, c := loggedIn(t, func(o *Security) { o.ReauthMax = time.Hour })
	s.age(59 * time.Minute)
	got := c.login("alice", "secret")
	if got.code != 0 || got.lifetime != time.Hour.Milliseconds() {
		t.Fatalf("re-authentication: %+v", got)
	}
	s.echo(c) // the session starts after the response
	s.age(59 * time.Minute)
	s.echo(c)
	s.age(2 * time.Minute)
	c.send(request(keyEcho, 1, 3, []byte("x")))
	s.wantRejected(c, rejectExpired, "not authenticated again")
}

// TestReauthenticationAfterTheEnd checks that a client may only reauthenticate after its session
// has expired.
func TestReauthenticationAfterTheEnd(t *testing.T) {
	s, c := loggedIn(t, func(o *Security) { o.ReauthMax = time.Hour })
	s.age(2 * time.Hour)
	if got := c.login("alice", "secret"); got.code != 0 {
		t.Fatalf("re-authentication: %+v", got)
	}
	s.echo(c)
}

func TestReauthenticationKeepsPrincipalAndMechanism(t *testing.T) {
	_, c := loggedIn(t, nil)
	if got := c.login("bob", "other"); got.code != codeAuthenticationFailed {
		t.Errorf("as another principal: %+v", got)
	}
	c.wantClosed()
	_, c = loggedIn(t, nil)
	if code := c.handshake(1, sasl.ScramSHA256); code != codeUnsupportedMechanism {
		t.Errorf("by another mechanism: error %d", code)
	}
	c.wantClosed()
	_, c = loggedIn(t, nil)
	if got := c.login("alice", "wrong"); got.code != codeAuthenticationFailed {
		t.Errorf("wrong password: %+v", got)
	}
	c.wantClosed()
}

// TestReauthenticationWithinASecond checks that a re-authentication within a second of the previous
// one is passed to the handler, which replies with ILLEGAL_SASL_STATE.
func TestReauthenticationWithinASecond(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	c := s.dial()
	c.login("alice", "secret")
	s.echo(c)         // the session starts after the response
	s.age(-time.Hour) // a busy machine may need more than a second
	c.send(request0(keySaslHandshake, 1, 1, []byte{0, 1, 'x'}))
	if _, body := c.reply(); len(body) != 0 {
		t.Errorf("got %q, want the empty answer of the test's handler", body)
	}
	if got := <-s.handler.got; got.Key != keySaslHandshake {
		t.Errorf("the handler got API %d", got.Key)
	}
}

func TestOtherRequestDuringReauthentication(t *testing.T) {
	_, c := loggedIn(t, nil)
	if code := c.handshake(1, sasl.ScramSHA512); code != 0 {
		t.Fatalf("handshake: error %d", code)
	}
	c.send(request(keyEcho, 1, 3, []byte("x")))
	c.wantClosed()
}

// TestLongPollMayOutliveTheSession checks that a long poll may continue after the session has
// expired, because the session is checked only when a request arrives.
func TestLongPollMayOutliveTheSession(t *testing.T) {
	s, c := loggedIn(t, func(o *Security) { o.ReauthMax = time.Hour })
	c.send(request(keyBehind, 1, 7, nil))
	<-s.handler.waiting
	s.age(2 * time.Hour)
	c.send(request(keyEcho, 1, 8, []byte("x")))
	if id, _ := c.reply(); id != 7 {
		t.Errorf("got reply %d, want that of the long poll", id)
	}
	s.wantRejected(c, rejectExpired, "not authenticated again")
}

// TestSessionEndsWithItsCredential checks that a connected user's session ends when the password is
// revoked.
func TestSessionEndsWithItsCredential(t *testing.T) {
	s, c := loggedIn(t, func(o *Security) {
		o.Valid = func(s *Session) bool { return s.Principal.Name != "alice" || s.Credential == "" }
	})
	other := s.dial()
	other.login("bob", "other")
	s.echo(other)
	s.EndSessions()
	s.wantRejected(c, rejectRevoked, "credential revoked")
	s.echo(other)
}

// TestClockJumpsDoNotEndSessions checks that a jump of the clock does not end a session, because
// its lifetime is measured by the monotonic clock.
func TestClockJumpsDoNotEndSessions(t *testing.T) {
	x := &saslExchange{security: &Security{ReauthMax: time.Hour}, mechanism: sasl.ScramSHA256}
	now := time.Now()
	session := x.sessionOf(now, sasl.Identity{Name: "alice",
		Expires: now.Round(0).Add(30 * time.Minute)})
	if left := session.Expires.Sub(now); left != 30*time.Minute {
		t.Errorf("session lasts %v", left)
	}
	if !strings.Contains(session.Expires.String(), "m=") {
		t.Error("the end of the session has no monotonic reading")
	}
}
