package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/xdg-go/scram"

	"heartwood.dev/heartwood/internal/sasl"
)

var failingAddress = netip.MustParseAddr("10.0.0.1")

func (s *testServer) rejectedForFailures() float64 {
	return testutil.ToFloat64(s.metrics.rejections.WithLabelValues("test", rejectFailures))
}

// failLogins authenticates with a wrong password until the user is blocked.
func (s *testServer) failLogins(user string, limit int) {
	s.t.Helper()
	for i := range limit + 1 {
		c := s.dial()
		if got := c.login(user, "old"); got.code != codeAuthenticationFailed {
			s.t.Fatalf("login %d of %s: %+v", i, user, got)
		}
		c.wantClosed()
	}
	s.eventually(func() bool {
		return s.failures.blocked(addressOf(s.dial().Conn), user, time.Now())
	}, "user "+user+" is not blocked")
}

// TestOldPasswordDoesNotBlockNeighbours checks that a client with an old password does not block
// other clients at its address, because all clients on a Kubernetes node have the same address.
func TestOldPasswordDoesNotBlockNeighbours(t *testing.T) {
	s := startSecure(t, scramSecurity(t))
	for range 3 {
		s.failLogins("alice", failuresMax)
		if got := s.dial().login("bob", "other"); got.code != 0 {
			t.Fatalf("login of bob while alice is blocked: %+v", got)
		}
		s.failures.forget()
	}
	if n := strings.Count(s.log.String(), "authentication failed"); n != 3*(failuresMax+1) {
		t.Errorf("%d failures are logged", n)
	}
}

// forget removes all entries, as if they had expired.
func (f *failures) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byAddress, f.names = nil, 0
}

// TestBlockedUserIsAnsweredAlike checks that while a name is blocked, the replies to the correct
// password, to a wrong password, and for a name that does not exist are the same.
func TestBlockedUserIsAnsweredAlike(t *testing.T) {
	security := scramSecurity(t)
	security.FailuresMax, security.FailureDelay = 2, 20*time.Millisecond
	s := startSecure(t, security)
	s.failLogins("alice", 2)
	s.failLogins("nobody", 2)
	wrong := s.dial().login("alice", "old")
	for _, c := range [][2]string{{"alice", "secret"}, {"nobody", "old"}} {
		begin := time.Now()
		client := s.dial()
		got := client.login(c[0], c[1])
		if took := time.Since(begin); took < security.FailureDelay {
			t.Errorf("%v was answered after %v", c, took)
		}
		if got.code != codeAuthenticationFailed || got.text != wrong.text ||
			!bytes.Equal(got.message, wrong.message) {
			t.Errorf("%v: got %+v, want %+v", c, got, wrong)
		}
		client.wantClosed()
	}
	s.eventually(func() bool { return s.rejectedForFailures() >= 3 }, "refusals are not counted")
	if got := s.dial().login("new", "old"); got.text != wrong.text {
		t.Errorf("a name that is not blocked: %+v", got)
	}
}

// TestRightPasswordOfABlockedUserInTheSecondMessage checks that a client cannot try more passwords
// on connections that it opened before it was blocked.
func TestRightPasswordOfABlockedUserInTheSecondMessage(t *testing.T) {
	blocked := false
	security := scramSecurity(t)
	x := &saslExchange{security: &security, blocked: func(string) bool { return blocked }}
	conversation, err := sasl.New(sasl.ScramSHA512, security.SASL())
	if err != nil {
		t.Fatal(err)
	}
	x.mechanism, x.conversation = sasl.ScramSHA512, conversation
	library, err := scram.SHA512.NewClient("alice", "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	talk := library.NewConversation()
	first, _ := talk.Step("")
	reply, _, err := x.step(time.Now(), []byte(first))
	if err != nil {
		t.Fatal(err)
	}
	final, err := talk.Step(string(reply))
	if err != nil {
		t.Fatal(err)
	}
	blocked = true
	_, session, err := x.step(time.Now(), []byte(final))
	var failed *authenticationError
	if !errors.As(err, &failed) || !failed.blocked || session != nil {
		t.Errorf("got session %v, error %v", session, err)
	}
}

func TestFailingClientsAreReported(t *testing.T) {
	security := scramSecurity(t)
	security.FailuresMax = 4
	s := startSecure(t, security)
	for _, name := range []string{"zoe", "zoe", "zoe", "bob", "bob", "bob", "bob", "once"} {
		c := s.dial()
		c.login(name, "old")
		c.wantClosed()
	}
	s.failLogins("alice", 4)
	local := addressOf(s.dial().Conn)
	want := []FailingClient{{local, "alice", true}, {local, "", false}, {local, "bob", false}}
	if got := s.FailingClients(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFailuresAreForgottenAfterTheWindow(t *testing.T) {
	var f failures
	now := time.Now()
	for range failuresMax + 1 {
		f.add(failingAddress, "alice", true, failuresMax, now)
	}
	for _, c := range []struct {
		after            time.Duration
		blocked, failing bool
	}{{0, true, true}, {failureBlock - 1, true, true}, {failureBlock, false, true},
		{failingFor - 1, false, true}, {failingFor, false, false}} {
		moment := now.Add(c.after)
		if got := f.blocked(failingAddress, "alice", moment); got != c.blocked {
			t.Errorf("after %v: blocked %t", c.after, got)
		}
		if got := f.failing(moment); (len(got) == 1) != c.failing {
			t.Errorf("after %v: failing %v", c.after, got)
		}
	}
	later := now.Add(failureWindow)
	if !f.add(failingAddress, "alice", true, failuresMax, later) ||
		f.blocked(failingAddress, "alice", later) {
		t.Error("failures of an earlier window count")
	}
}

// TestSuccessForgetsFailures checks that occasional failures do not block a user whose clients
// usually succeed.
func TestSuccessForgetsFailures(t *testing.T) {
	var f failures
	now := time.Now()
	for range failuresMax {
		for range failuresMax {
			f.add(failingAddress, "alice", true, failuresMax, now)
		}
		f.succeeded(failingAddress, "alice")
	}
	if f.blocked(failingAddress, "alice", now) {
		t.Error("alice is blocked")
	}
	if len(f.failing(now)) != 1 {
		t.Error("alice is not reported")
	}
}

// TestFailuresWithoutANameBlockTheAddress checks that failures without a name block the address,
// but only after ten times as many failures as for a name.
func TestFailuresWithoutANameBlockTheAddress(t *testing.T) {
	var f failures
	now := time.Now()
	for range failuresMax * unnamedFactor {
		f.add(failingAddress, "", false, failuresMax, now)
	}
	if f.refuses(failingAddress, now) {
		t.Error("the address is refused before the limit")
	}
	f.add(failingAddress, "", false, failuresMax, now)
	if !f.refuses(failingAddress, now) || f.blocked(failingAddress, "alice", now) {
		t.Error("the address is not refused, or a user is")
	}
}

func TestAddressIsRefusedAfterManyFailures(t *testing.T) {
	security := scramSecurity(t)
	security.FailuresMax = 1
	s := startSecure(t, security)
	for range unnamedFactor + 1 {
		c := s.dial()
		c.handshake(1, "GSSAPI")
		c.wantClosed()
	}
	s.eventually(func() bool {
		s.dial().wantClosed()
		return s.rejectedForFailures() > 0
	}, "no connection was refused")
}

// TestVariedNamesShareALimit checks that the number of names per address is limited, and that
// further names share one count.
func TestVariedNamesShareALimit(t *testing.T) {
	var f failures
	now := time.Now()
	for i := range 2 * addressNamesMax {
		f.add(failingAddress, fmt.Sprint("user", i), false, failuresMax, now)
	}
	if n := len(f.byAddress[failingAddress].byName); n != addressNamesMax {
		t.Errorf("%d names of an address", n)
	}
	if !f.blocked(failingAddress, "another", now) || f.blocked(failingAddress, "user0", now) ||
		f.blocked(netip.MustParseAddr("10.0.0.2"), "another", now) {
		t.Error("further names are not blocked, or others are")
	}
	later := now.Add(failureWindow) // each name has failed once, and the failures expire
	f.add(failingAddress, "another", false, failuresMax, later)
	if n := len(f.byAddress[failingAddress].byName); n != 1 || f.names != 1 {
		t.Errorf("%d names, %d in all, after the others have expired", n, f.names)
	}
}

func TestFailuresAreBounded(t *testing.T) {
	var f failures
	now := time.Now()
	for i := range failureAddressesMax + 100 {
		address := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		for _, name := range []string{strings.Repeat("a", 200), "b"} {
			f.add(address, name, false, failuresMax, now)
		}
	}
	names := 0
	for _, failing := range f.byAddress {
		names += len(failing.byName)
	}
	if len(f.byAddress) != failureAddressesMax || names != failureNamesMax || f.names != names {
		t.Errorf("%d addresses, %d names, counted as %d", len(f.byAddress), names, f.names)
	}
	f.add(failingAddress, "alice", true, failuresMax, now.Add(failureWindow))
	if len(f.byAddress) != 1 || f.names != 1 {
		t.Errorf("%d addresses and %d names after they have expired", len(f.byAddress), f.names)
	}
}
