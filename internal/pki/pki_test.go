package pki

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newAuthority returns an authority created at the time start.
func newAuthority(t *testing.T) *Authority {
	t.Helper()
	a, _, err := (&Authority{}).Step(start, Input{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func step(t *testing.T, a *Authority, now time.Time, input Input) *Authority {
	t.Helper()
	after, _, err := a.Step(now, input)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func issue(t *testing.T, a *Authority, request Request, now time.Time) Leaf {
	t.Helper()
	leaf, err := a.Issue(request, now)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func TestReplacementOverlaps(t *testing.T) {
	a := newAuthority(t)
	first := a.Issuing.Certificate
	a = step(t, a, start, Input{Name: "test", Replace: "1"})
	if a.Next == nil || len(a.Certificates()) != 2 || !a.Issuing.Certificate.Equal(first) {
		t.Fatal("the next CA is not published beside the issuing one")
	}
	a = step(t, a, start.Add(Overlap-time.Second), Input{Replace: "1", Loaded: true})
	a = step(t, a, start.Add(7*day), Input{Replace: "1", Loaded: false})
	if !a.Issuing.Certificate.Equal(first) {
		t.Fatal("the next CA issues before 24 h, or before the brokers have loaded the bundle")
	}
	a = step(t, a, start.Add(7*day), Input{Replace: "1", Loaded: true})
	if a.Issuing.Certificate.Equal(first) || len(a.Retired) != 1 {
		t.Fatal("the next CA does not issue")
	}
	a = step(t, a, start.Add(7*day+LeafLifetime-time.Second), Input{Replace: "1", Loaded: true})
	if len(a.Certificates()) != 2 {
		t.Error("the old CA is not published although its leaves may be in use")
	}
	a = step(t, a, start.Add(7*day+LeafLifetime), Input{Replace: "1", Loaded: true})
	if len(a.Certificates()) != 1 {
		t.Error("the old CA is published after its last leaf has expired")
	}
}

// TestUrgentReplacementOverlapsShortly checks a replacement with a short overlap, which is
// necessary if an attacker may know a CA's key.
func TestUrgentReplacementOverlapsShortly(t *testing.T) {
	a := newAuthority(t)
	first, input := a.Issuing.Certificate, Input{Replace: "1", Overlap: time.Minute}
	a = step(t, a, start, input)
	input.Loaded = true
	if a = step(t, a, start.Add(time.Minute-1), input); !a.Issuing.Certificate.Equal(first) {
		t.Fatal("the next CA issues too early")
	}
	if a = step(t, a, start.Add(time.Minute), input); a.Issuing.Certificate.Equal(first) {
		t.Fatal("the next CA does not issue")
	}
}

func TestExpiringCAIsReplaced(t *testing.T) {
	a := newAuthority(t)
	due := a.Issuing.Certificate.NotAfter.Add(-2 * LeafLifetime)
	if a = step(t, a, due.Add(-time.Second), Input{Name: "test"}); a.Next != nil {
		t.Error("the CA is replaced too early")
	}
	if a = step(t, a, due, Input{Name: "test"}); a.Next == nil {
		t.Error("the CA is not replaced")
	}
}

func TestLeafIsRenewedAtTwoThirds(t *testing.T) {
	a := newAuthority(t)
	request := Request{CommonName: "a", Server: true}
	leaf := issue(t, a, request, start)
	renewal := RenewalOf(leaf.Certificate)
	if early := start.Add(60*day - time.Hour); renewal.Before(early) ||
		renewal.After(start.Add(60*day)) {
		t.Errorf("renewal at %s", renewal)
	}
	if reason := a.Due(leaf, request, renewal.Add(-time.Second)); reason != "" {
		t.Errorf("due before two thirds: %s", reason)
	}
	if reason := a.Due(leaf, request, renewal); reason != "expires soon" {
		t.Errorf("got %q", reason)
	}
	if reason := a.Due(Leaf{}, request, start); reason != "missing" {
		t.Errorf("got %q", reason)
	}
	if reason := a.Due(leaf, Request{CommonName: "a", Client: true}, start); reason != "other names" {
		t.Errorf("got %q", reason)
	}
	if reason := newAuthority(t).Due(leaf, request, start); reason != "issued by another CA" {
		t.Errorf("got %q", reason)
	}
}

func TestLeafDoesNotOutliveItsCA(t *testing.T) {
	a := newAuthority(t)
	end := a.Issuing.Certificate.NotAfter
	leaf := issue(t, a, Request{CommonName: "a"}, end.Add(-day))
	if !leaf.Certificate.NotAfter.Equal(end) {
		t.Errorf("the leaf expires at %s, the CA at %s", leaf.Certificate.NotAfter, end)
	}
}

// TestServerLeafIsNoClient checks that a broker does not accept the certificate of another broker's
// listener as a client certificate.
func TestServerLeafIsNoClient(t *testing.T) {
	a := newAuthority(t)
	leaf := issue(t, a, Request{CommonName: "a", Server: true}, start)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.Bundle())
	_, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err == nil || !strings.Contains(err.Error(), "incompatible key usage") {
		t.Errorf("got %v", err)
	}
}

// TestLeafIssuesNothing checks that a leaf cannot be used as an intermediate CA.
func TestLeafIssuesNothing(t *testing.T) {
	a := newAuthority(t)
	leaf := issue(t, a, Request{CommonName: "a", Server: true, Client: true}, start)
	if leaf.Certificate.IsCA || leaf.Certificate.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("the leaf is a CA")
	}
	if !a.Issuing.Certificate.MaxPathLenZero {
		t.Error("the CA may issue intermediate CAs")
	}
}

func TestListenerNamesCoverEveryForm(t *testing.T) {
	a := newAuthority(t)
	names := ListenerNames{Namespace: "logs", Services: []string{"main-bootstrap"},
		Headless: []string{"main-brokers"},
		Hosts: []string{"b0.kafka.example.com", "10.0.0.1", "::ffff:10.0.0.2", "fd00::1", "",
			"b0.kafka.example.com"}}
	request := names.Request("main")
	leaf := issue(t, a, request, start)
	for _, host := range []string{"main-bootstrap", "main-bootstrap.logs",
		"main-bootstrap.logs.svc", "main-bootstrap.logs.svc.cluster.local",
		"main-broker-12.main-brokers.logs.svc", "main-broker-0.main-brokers.logs",
		"main-brokers.logs.svc.cluster.local", "b0.kafka.example.com", "10.0.0.1", "10.0.0.2",
		"fd00::1"} {
		if err := leaf.Certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	for _, host := range []string{"other.logs.svc", "main-bootstrap.other.svc", "10.0.0.3",
		"a.b.main-brokers.logs.svc"} {
		if err := leaf.Certificate.VerifyHostname(host); err == nil {
			t.Errorf("%s is certified", host)
		}
	}
	slices.Reverse(names.Hosts)
	if reason := a.Due(leaf, names.Request("main"), start); reason != "" {
		t.Errorf("the order of names matters: %s", reason)
	}
	names.Hosts = append(names.Hosts, "b1.kafka.example.com")
	if reason := a.Due(leaf, names.Request("main"), start); reason != "other names" {
		t.Errorf("a new name gives %q", reason)
	}
}

func TestPeerRequestNamesThePod(t *testing.T) {
	a := newAuthority(t)
	uri := "heartwood://logs/main/broker/2"
	leaf := issue(t, a, PeerRequest("main-broker-2", "main-brokers", "logs", uri), start)
	if err := leaf.Certificate.VerifyHostname("main-broker-2.main-brokers.logs.svc"); err != nil {
		t.Error(err)
	}
	if err := leaf.Certificate.VerifyHostname("main-broker-1.main-brokers.logs.svc"); err == nil {
		t.Error("the certificate names another broker")
	}
	if got := leaf.Certificate.URIs; len(got) != 1 || got[0].String() != uri {
		t.Errorf("got URIs %v", got)
	}
	other := PeerRequest("main-broker-1", "main-brokers", "logs", uri)
	if a.Due(leaf, other, start) == "" {
		t.Error("another pod has the same certificate")
	}
}

func TestDamagedAuthorityIsNotReplaced(t *testing.T) {
	a := step(t, newAuthority(t), start, Input{Name: "test", Replace: "1"})
	a = step(t, a, start.Add(Overlap), Input{Replace: "1", Loaded: true})
	a = step(t, a, start.Add(Overlap), Input{Name: "test", Replace: "2"})
	other, err := newAuthority(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"ca.crt", "ca.key", "next.key", "retired.crt", "state.json"} {
		for _, value := range [][]byte{nil, []byte("x"), other["ca.key"]} {
			data, err := a.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(data); err != nil {
				t.Fatal(err)
			}
			data[key] = value
			if _, err := Decode(data); err == nil {
				t.Errorf("an authority with %s = %q was decoded", key, value)
			}
		}
	}
}

func TestForeignLeafIsChecked(t *testing.T) {
	a := newAuthority(t)
	leaf := issue(t, a, Request{CommonName: "a", Server: true}, start)
	parsed, err := ParseLeaf(leaf.Chain, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := parsed.Check(start); err != nil {
		t.Error(err)
	}
	client := issue(t, a, Request{CommonName: "a", Client: true}, start)
	for want, err := range map[string]error{
		"expired at 2026-04-01":           parsed.Check(start.Add(91 * day)),
		"not valid before 2025-12-31":     parsed.Check(start.Add(-day)),
		"not allow server authentication": client.Check(start),
		"certificate is that of a CA":     Leaf{Certificate: a.Issuing.Certificate}.Check(start),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := ParseLeaf(leaf.Chain, client.Key); err == nil {
		t.Error("a certificate with the key of another one was accepted")
	}
}

func FuzzDecode(f *testing.F) {
	a, _, err := (&Authority{}).Step(start, Input{Name: "test"})
	if err != nil {
		f.Fatal(err)
	}
	data, err := a.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[KeyCertificate], data[KeyPrivate], data[keyState])
	f.Fuzz(func(t *testing.T, certificate, key, state []byte) {
		decoded, err := Decode(map[string][]byte{KeyCertificate: certificate, KeyPrivate: key,
			keyState: state})
		if err != nil {
			return
		}
		if _, err := decoded.Encode(); err != nil {
			t.Error(err)
		}
	})
}
