package pki

import (
	"crypto/x509"
	"testing"
	"time"
)

// lose returns the authority that replaces a after a was lost except for its published
// certificates.
func lose(t *testing.T, a *Authority, now time.Time) *Authority {
	t.Helper()
	return step(t, &Authority{}, now, Input{Name: "test", Published: a.Certificates(), Lost: true})
}

func TestLostCAStaysInTheBundle(t *testing.T) {
	a := newAuthority(t)
	request := Request{CommonName: "a", Server: true}
	leaf := issue(t, a, request, start)
	lost := start.Add(day)
	b := lose(t, a, lost)
	if b.Issuing.Key != nil || !b.Issuing.Certificate.Equal(a.Issuing.Certificate) {
		t.Fatalf("got %+v, want the certificate of the lost CA without its key", b)
	}
	if b.Next == nil || len(b.Certificates()) != 2 {
		t.Fatalf("got %+v, want the lost CA and the next", b)
	}
	if !b.Lost.Equal(lost) {
		t.Fatalf("got time of loss %s, want %s", b.Lost, lost)
	}
	if err := verifies(b.Bundle(), leaf.Certificate, lost); err != nil {
		t.Error(err)
	}
	if reason := b.Due(leaf, request, lost); reason != "" {
		t.Errorf("the leaf is issued again at once: %s", reason)
	}
	if reason := b.Due(leaf, Request{CommonName: "b"}, lost); reason != "other names" {
		t.Errorf("another identity: %q", reason)
	}
	urgent := leaf.Certificate.NotAfter.Add(-Overlap)
	if reason := b.Due(leaf, request, urgent); reason != "expires soon" {
		t.Errorf("before the expiry: %q", reason)
	}
	fresh := issue(t, b, Request{CommonName: "new broker"}, lost)
	if err := fresh.Certificate.CheckSignatureFrom(b.Next.Certificate); err != nil {
		t.Error(err)
	}
	if reason := b.Due(fresh, Request{CommonName: "new broker"}, lost); reason != "" {
		t.Errorf("the leaf of the next CA: %q", reason)
	}
	if other := issue(t, newAuthority(t), request, start); b.Due(other, request, lost) == "" {
		t.Error("the leaf of another CA is kept")
	}
	early := step(t, b, lost.Add(Overlap-1), Input{Loaded: true})
	if early.Issuing.Key != nil {
		t.Error("the next CA issues before the overlap has passed")
	}
	late := step(t, b, lost.Add(Overlap), Input{Loaded: true})
	if late.Issuing.Key == nil || len(late.Certificates()) != 2 || !late.Lost.IsZero() {
		t.Errorf("after the overlap: %+v", late)
	}
	if reason := late.Due(leaf, request, lost.Add(Overlap)); reason != "issued by another CA" {
		t.Errorf("got %q", reason)
	}
}

// TestLostCAIsStored checks that the state while a key is lost survives a restart of the operator.
// In any other state, a certificate without a key counts as damage.
func TestLostCAIsStored(t *testing.T) {
	b := lose(t, newAuthority(t), start)
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := data[KeyPrivate]; ok {
		t.Error("a key that is lost is stored")
	}
	decoded, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !sameAuthority(decoded, b) {
		t.Error("the stored authority differs")
	}
	for _, key := range []string{"ca.crt", "next.crt", "next.key", "state.json"} {
		data, _ := b.Encode()
		delete(data, key)
		if _, err := Decode(data); err == nil {
			t.Errorf("an authority without %s was decoded", key)
		}
	}
}

func TestCAThatWasReplacedByHandOverlaps(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	b := step(t, other, start, Input{Name: "test", Published: a.Certificates()})
	if !b.Issuing.Certificate.Equal(a.Issuing.Certificate) || b.Issuing.Key != nil ||
		!b.Next.Certificate.Equal(other.Issuing.Certificate) {
		t.Errorf("got %+v", b)
	}
	restored := step(t, a, start, Input{Name: "test", Published: b.Certificates()})
	if restored.Issuing.Key == nil || restored.Next != nil || !restored.Lost.IsZero() {
		t.Error("the restored CA does not issue")
	}
}

func TestCertificatesOfSeveralLossesAreKept(t *testing.T) {
	a := newAuthority(t)
	b := lose(t, a, start)
	c := lose(t, b, start)
	for _, want := range []*x509.Certificate{a.Issuing.Certificate, b.Next.Certificate,
		c.Next.Certificate} {
		if !c.Has(want) {
			t.Error("a certificate is missing")
		}
	}
}

func TestNothingIsKeptOfACAWithoutCertificates(t *testing.T) {
	old := newAuthority(t)
	for name, published := range map[string][]*x509.Certificate{"no certificate": nil,
		"expired": old.Certificates()} {
		now := old.Issuing.Certificate.NotAfter.Add(time.Second)
		a := step(t, &Authority{}, now, Input{Name: "test", Published: published, Lost: true})
		if a.Issuing.Key == nil || a.Next != nil || !a.Lost.Equal(now) {
			t.Errorf("%s: got %+v", name, a)
		}
		if after := step(t, a, now.Add(Overlap), Input{Name: "test"}); !after.Lost.IsZero() {
			t.Errorf("%s: the loss is reported for ever", name)
		}
	}
	if first := newAuthority(t); !first.Lost.IsZero() {
		t.Error("the first CA is reported as lost")
	}
}
