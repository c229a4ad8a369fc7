package sasl

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// users contains verifiers by mechanism and user.
type users map[string][]Verifier

func (u users) options() *Options {
	return &Options{UnknownKey: []byte("cluster key"),
		Verifiers: func(mechanism, user string) []Verifier { return u[mechanism+" "+user] }}
}

func (u users) add(t *testing.T, user, password string, salt byte, notAfter time.Time) {
	t.Helper()
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		v, err := NewVerifier(mechanism, password, bytes.Repeat([]byte{salt}, SaltBytes),
			IterationsDefault)
		if err != nil {
			t.Fatal(err)
		}
		v.NotAfter = notAfter
		u[mechanism+" "+user] = append(u[mechanism+" "+user], v)
	}
}

// login is one conversation with a client from the library. Its functions change the client's
// messages.
type login struct {
	user, password, authzID string
	mechanism               string
	final                   func(first, final string) string
}

// run returns the identity, the server's first reply, and the server's error. The client verifies
// the server's signature.
func (l login) run(t *testing.T, o *Options) (identity Identity, first string, err error) {
	t.Helper()
	if l.mechanism == "" {
		l.mechanism = ScramSHA512
	}
	client, err := hashes[l.mechanism].NewClientUnprepped(l.user, l.password, l.authzID)
	if err != nil {
		t.Fatal(err)
	}
	talk := client.NewConversation()
	server, err := New(l.mechanism, o)
	if err != nil {
		t.Fatal(err)
	}
	hello, err := talk.Step("")
	if err != nil {
		t.Fatal(err)
	}
	reply, done, err := server.Step(now, []byte(hello))
	if err != nil || done {
		return identity, "", err
	}
	first = string(reply)
	proof, err := talk.Step(first)
	if err != nil {
		t.Fatal(err)
	}
	if l.final != nil {
		proof = l.final(hello, proof)
	}
	reply, done, err = server.Step(now, []byte(proof))
	if err != nil {
		return identity, first, err
	}
	if _, err := talk.Step(string(reply)); err != nil || !done {
		t.Fatalf("the client does not accept the server's signature: %v, done %t", err, done)
	}
	return server.Identity(), first, nil
}

func TestPasswordAuthenticates(t *testing.T) {
	u := users{}
	for _, name := range []string{"alice", "a,b=c", "=2C", "ünï"} {
		u.add(t, name, "sécret", 7, time.Time{})
		for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
			got, _, err := login{user: name, password: "sécret", mechanism: mechanism}.run(t,
				u.options())
			if err != nil || got.Name != name {
				t.Errorf("%s, %q: got %+v, %v", mechanism, name, got, err)
			}
			v := u[mechanism+" "+name][0]
			if got.Credential != CredentialID(&v) {
				t.Errorf("credential is %q", got.Credential)
			}
		}
	}
}

func TestOwnNameAsAuthorizationID(t *testing.T) {
	u := users{}
	u.add(t, "alice", "secret", 7, time.Time{})
	if _, _, err := (login{user: "alice", password: "secret", authzID: "alice"}).run(t,
		u.options()); err != nil {
		t.Errorf("own name: %v", err)
	}
	_, _, err := login{user: "alice", password: "secret", authzID: "admin"}.run(t, u.options())
	if reason(err) != "authorization id differs from the user name" {
		t.Errorf("other name: %v", err)
	}
}

// reason returns a *Failure's reason, or "" for other errors.
func reason(err error) string {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Reason
	}
	return ""
}

// TestUnknownUserLooksLikeAKnownOne compares what clients with a known and an unknown user receive.
// Both must fail at the second message, with the same text for the client.
func TestUnknownUserLooksLikeAKnownOne(t *testing.T) {
	u := users{}
	u.add(t, "alice", "secret", 7, time.Time{})
	_, known, err := login{user: "alice", password: "wrong"}.run(t, u.options())
	if reason(err) != "wrong password" {
		t.Fatalf("wrong password: %v", err)
	}
	_, unknown, err := login{user: "bob", password: "wrong"}.run(t, u.options())
	if reason(err) != "unknown user" {
		t.Fatalf("unknown user: %v", err)
	}
	if len(known) != len(unknown) ||
		field(known, "i=") != field(unknown, "i=") {
		t.Errorf("a known user gets %q, an unknown one %q", known, unknown)
	}
	_, again, _ := login{user: "bob", password: "other"}.run(t, u.options())
	if field(unknown, "s=") != field(again, "s=") {
		t.Error("the salt of an unknown user changes")
	}
	_, other, _ := login{user: "carol", password: "other"}.run(t, u.options())
	if field(unknown, "s=") == field(other, "s=") {
		t.Error("two unknown users have the same salt")
	}
	o := u.options()
	o.UnknownKey = []byte("other cluster")
	if _, other, _ = (login{user: "bob", password: "x"}).run(t, o); field(unknown, "s=") ==
		field(other, "s=") {
		t.Error("the salt of an unknown user does not depend on the cluster's key")
	}
}

func TestRotatedPasswordIsValidUntilItsEnd(t *testing.T) {
	u := users{}
	u.add(t, "alice", "new", 7, time.Time{})
	u.add(t, "alice", "old", 7, now.Add(time.Second))
	for _, password := range []string{"old", "new"} {
		got, _, err := login{user: "alice", password: password}.run(t, u.options())
		if err != nil || got.Expires.IsZero() != (password == "new") {
			t.Errorf("password %s: %+v, %v", password, got, err)
		}
	}
	u[ScramSHA512+" alice"][1].NotAfter = now
	if _, _, err := (login{user: "alice", password: "old"}).run(t, u.options()); reason(err) !=
		"wrong password" {
		t.Errorf("old password after its end: %v", err)
	}
}

// TestVerifierWithAnotherSaltIsSkipped checks that a second verifier is skipped if its salt differs
// from the first verifier's salt, because only one salt can be sent.
func TestVerifierWithAnotherSaltIsSkipped(t *testing.T) {
	u := users{}
	u.add(t, "alice", "new", 7, time.Time{})
	u.add(t, "alice", "old", 8, time.Time{})
	if _, _, err := (login{user: "alice", password: "new"}).run(t, u.options()); err != nil {
		t.Errorf("first verifier: %v", err)
	}
	if _, _, err := (login{user: "alice", password: "old"}).run(t, u.options()); err == nil {
		t.Error("a verifier with another salt was used")
	}
}

// TestDoubledNonceIsRefusedWithAHint sends a nonce like librdkafka below 2.6.1.
func TestDoubledNonceIsRefusedWithAHint(t *testing.T) {
	u := users{}
	u.add(t, "alice", "secret", 7, time.Time{})
	double := func(hello, final string) string {
		nonce := field(hello, "r=")
		return strings.Replace(final, "r="+nonce, "r="+nonce+nonce, 1)
	}
	_, _, err := login{user: "alice", password: "secret", final: double}.run(t, u.options())
	var failure *Failure
	if !errors.As(err, &failure) || !strings.Contains(failure.Hint, "librdkafka") {
		t.Errorf("got %v, %+v", err, failure)
	}
}

func TestManipulatedFinalMessageIsRefused(t *testing.T) {
	u := users{}
	u.add(t, "alice", "secret", 7, time.Time{})
	for name, change := range map[string]func(hello, final string) string{
		"nonce":    func(_, f string) string { return strings.Replace(f, "r=", "r=x", 1) },
		"binding":  func(_, f string) string { return strings.Replace(f, "c=biws", "c=eSws", 1) },
		"proof":    func(_, f string) string { return withoutProof(f) + ",p=AAAA" },
		"empty":    func(string, string) string { return "" },
		"no proof": func(_, f string) string { return withoutProof(f) },
	} {
		if got, _, err := (login{user: "alice", password: "secret", final: change}).run(t,
			u.options()); err == nil {
			t.Errorf("%s: authenticated as %+v", name, got)
		}
	}
}

// withoutProof returns a final message without its last field.
func withoutProof(final string) string {
	before, _, _ := strings.Cut(final, ",p=")
	return before
}

func TestConversationEndsWithAFailure(t *testing.T) {
	u := users{}
	s, _ := New(ScramSHA256, u.options())
	for _, message := range []string{"garbage", "n,,n=alice,r=abc", "c=biws,r=abc,p=AAAA"} {
		if _, done, err := s.Step(now, []byte(message)); err == nil || done {
			t.Errorf("message %q was accepted after a malformed one", message)
		}
	}
	if _, err := New("PLAIN", u.options()); !errors.Is(err, ErrMechanism) {
		t.Errorf("PLAIN: %v", err)
	}
	if _, err := New(OAuthBearer, u.options()); !errors.Is(err, ErrMechanism) {
		t.Errorf("OAUTHBEARER without issuers: %v", err)
	}
}

// TestFailuresContainNoSecret checks that the errors and replies of failed conversations contain no
// secret.
func TestFailuresContainNoSecret(t *testing.T) {
	u := users{}
	u.add(t, "alice", "top-secret-password", 7, time.Time{})
	_, first, err := login{user: "alice", password: "wrong-password"}.run(t, u.options())
	text := first + err.Error() + ClientMessage(ScramSHA512)
	for _, secret := range []string{"top-secret", "wrong-password", "alice"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q contains %q", text, secret)
		}
	}
}

func FuzzScram(f *testing.F) {
	f.Add("n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL", "c=biws,r=fyko,p=AAAA")
	f.Add("y,a=alice,n=alice,r=x,m=1", "c=eSws,r=x,x=1,p=")
	f.Add("p=tls-unique,,n==2C=3D,r=x", ",,,,")
	v, err := NewVerifier(ScramSHA256, "secret", []byte("salt"), IterationsDefault)
	if err != nil {
		f.Fatal(err)
	}
	o := users{ScramSHA256 + " alice": {v}}.options()
	f.Fuzz(func(t *testing.T, first, final string) {
		for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
			s, _ := New(mechanism, o)
			reply, done, err := s.Step(now, []byte(first))
			if done || err == nil && !strings.HasPrefix(string(reply), "r=") {
				t.Fatalf("first message: %q, %t, %v", reply, done, err)
			}
			if _, done, err := s.Step(now, []byte(final)); done || err == nil {
				t.Fatalf("authenticated by %q, %q", first, final)
			}
		}
	})
}

// BenchmarkScram measures the server's work for one authentication.
func BenchmarkScram(b *testing.B) {
	v, err := NewVerifier(ScramSHA512, "secret", []byte("salt"), IterationsDefault)
	if err != nil {
		b.Fatal(err)
	}
	o := users{ScramSHA512 + " alice": {v}}.options()
	client, err := scram.SHA512.NewClientUnprepped("alice", "secret", "")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		talk := client.NewConversation()
		hello, _ := talk.Step("")
		s, _ := New(ScramSHA512, o)
		reply, _, _ := s.Step(now, []byte(hello))
		proof, _ := talk.Step(string(reply))
		if _, done, err := s.Step(now, []byte(proof)); !done || err != nil {
			b.Fatal(err)
		}
	}
}
