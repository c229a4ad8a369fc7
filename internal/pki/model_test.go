package pki

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

const day = 24 * time.Hour

// world is a model of a cluster whose CA changes over time. It contains every issued leaf and every
// published bundle.
type world struct {
	t         *testing.T
	now       time.Time
	authority *Authority
	request   Request
	leaf      Leaf // the leaf in use
	issued    []Leaf
	// immediate is true if the issuing CA is the first one or replaced an expired one.
	immediate bool
	// urgent is true if the next CA issued the leaf in use, because the issuing CA's key was lost.
	urgent  bool
	bundles []published
	replace int // value of the last replacement request
}

type published struct {
	moment time.Time
	bundle []byte
}

// step advances the authority in the same way as the operator: it stores and reads the authority,
// and issues a leaf if one is due.
func (w *world) step(loaded bool) {
	w.t.Helper()
	before := w.authority
	input := Input{Name: "test", Loaded: loaded, Replace: strconv.Itoa(w.replace),
		Published: w.published()}
	after, changed, err := before.Step(w.now, input)
	if err != nil {
		w.t.Fatal(err)
	}
	input.Loaded = false
	if again, more, err := after.Step(w.now, input); err != nil || more ||
		!sameAuthority(again, after) {
		w.t.Fatalf("a second step changes the authority again (error %v)", err)
	}
	if !changed && !sameAuthority(before, after) {
		w.t.Fatal("the authority changed, but the step reports no change")
	}
	w.checkPromotion(before, after, loaded)
	data, err := after.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	if w.authority, err = Decode(data); err != nil {
		w.t.Fatal(err)
	}
	if !sameAuthority(w.authority, after) {
		w.t.Fatal("the stored authority differs")
	}
	if bundle := w.authority.Bundle(); len(w.bundles) == 0 ||
		!bytes.Equal(w.bundles[len(w.bundles)-1].bundle, bundle) {
		w.bundles = append(w.bundles, published{w.now, bundle})
	}
	w.renew()
	w.check()
}

// published returns the certificates in the last bundle.
func (w *world) published() []*x509.Certificate {
	if len(w.bundles) == 0 {
		return nil
	}
	certificates, err := ParseCertificates(w.bundles[len(w.bundles)-1].bundle)
	if err != nil {
		w.t.Fatal(err)
	}
	return certificates
}

// lose removes the authority, or replaces it with another one.
func (w *world) lose(replace bool) {
	w.t.Helper()
	w.authority = &Authority{}
	if replace {
		other, _, err := w.authority.Step(w.now, Input{Name: "other",
			Replace: strconv.Itoa(w.replace)})
		if err != nil {
			w.t.Fatal(err)
		}
		w.authority = other
	}
}

// checkPromotion checks that a CA starts to issue leaves only after all brokers have loaded it and
// it was published for Overlap, except if it replaces an expired CA.
func (w *world) checkPromotion(before, after *Authority, loaded bool) {
	w.t.Helper()
	if old := w.published(); len(old) > 0 && !before.Has(old[0]) {
		if expired(old[0], w.now) {
			w.immediate = true
			return
		}
		if !after.Issuing.Certificate.Equal(old[0]) || after.Next == nil {
			w.t.Fatalf("%s: the CA in place of a lost one issues at once", w.now)
		}
		return
	}
	if before.Issuing.Certificate == nil || expired(before.Issuing.Certificate, w.now) {
		w.immediate = true
		return
	}
	if before.Issuing.Certificate.Equal(after.Issuing.Certificate) {
		return
	}
	w.immediate = false
	if before.Next == nil || !loaded || w.now.Sub(before.Next.Published) < Overlap {
		w.t.Fatalf("%s: the next CA began to issue too early", w.now)
	}
}

func (w *world) renew() {
	w.t.Helper()
	if w.authority.Due(w.leaf, w.request, w.now) == "" {
		return
	}
	leaf, err := w.authority.Issue(w.request, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	if reason := w.authority.Due(leaf, w.request, w.now); reason != "" &&
		!w.authority.Issuing.Certificate.NotAfter.Before(w.now.Add(LeafLifetime)) {
		w.t.Fatalf("a new leaf is due again: %s", reason)
	}
	w.urgent = w.authority.Issuing.Key == nil
	w.leaf = leaf
	w.issued = append(w.issued, leaf)
}

// check checks the invariants in doc.go.
func (w *world) check() {
	w.t.Helper()
	present := w.authority.Bundle()
	for _, i := range w.issued {
		certificate := i.Certificate
		if w.now.After(certificate.NotAfter) {
			continue
		}
		if err := verifies(present, certificate, w.now); err != nil {
			w.t.Fatalf("%s: the bundle does not verify a leaf of %s: %v", w.now,
				certificate.NotBefore, err)
		}
	}
	last := w.issued[len(w.issued)-1]
	for i, bundle := range w.bundles {
		// A client has the bundle that was current Overlap ago, or a later bundle.
		superseded := i+1 < len(w.bundles) && !w.bundles[i+1].moment.After(w.now.Add(-Overlap))
		if superseded || w.immediate || w.urgent || last.Certificate.NotAfter.Before(w.now) {
			continue
		}
		if err := verifies(bundle.bundle, last.Certificate, w.now); err != nil {
			w.t.Fatalf("%s: the bundle of %s does not verify the leaf in use: %v", w.now,
				bundle.moment, err)
		}
	}
	if n := len(w.authority.Certificates()); n > 100 {
		w.t.Fatalf("the bundle has %d certificates", n)
	}
}

func verifies(bundle []byte, leaf *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return fmt.Errorf("the bundle contains no certificate")
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

func sameAuthority(a, b *Authority) bool {
	before, errBefore := a.encodeAny()
	after, errAfter := b.encodeAny()
	return errBefore == nil && errAfter == nil && reflect.DeepEqual(before, after)
}

// encodeAny is like Encode, but also supports an authority without a certificate.
func (a *Authority) encodeAny() (map[string][]byte, error) {
	if a.Issuing.Certificate == nil {
		return nil, nil
	}
	return a.Encode()
}

// TestAuthorityModel runs random histories of a CA. They contain regular steps, pauses of the
// operator of up to four years, brokers that do not load the bundle, requested replacements,
// changed names, and CAs that are lost or replaced manually.
func TestAuthorityModel(t *testing.T) {
	for s := range seed.Sequence(t, 30) {
		random := rand.New(rand.NewPCG(s, 0))
		w := &world{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			authority: &Authority{}, request: Request{CommonName: "a", Server: true}}
		for range 150 {
			switch n := random.IntN(100); {
			case n < 2:
				w.now = w.now.Add(time.Duration(random.Int64N(int64(4 * 365 * day))))
			case n < 40:
				w.now = w.now.Add(time.Duration(random.Int64N(int64(40 * day))))
			default:
				w.now = w.now.Add(time.Duration(random.Int64N(int64(30 * time.Hour))))
			}
			w.now = w.now.Truncate(time.Second)
			if random.IntN(20) == 0 {
				w.replace++
			}
			if random.IntN(20) == 0 {
				w.request.DNSNames = []string{strconv.Itoa(random.IntN(5))}
			}
			if random.IntN(15) == 0 {
				w.lose(random.IntN(2) == 0)
			}
			w.step(random.IntN(3) > 0)
		}
	}
}
