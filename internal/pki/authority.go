package pki

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// CALifetime is the lifetime of the certificate of a CA.
	CALifetime = 3 * 365 * 24 * time.Hour
	// LeafLifetime is the maximum lifetime of a leaf.
	LeafLifetime = 90 * 24 * time.Hour
	// Overlap is the minimum time for which the certificate of a new CA is published before the CA
	// issues leaves, unless Input.Overlap is shorter.
	Overlap = 24 * time.Hour

	// replaceBefore is the time before its expiry at which a CA is replaced. It leaves time to
	// notice that the replacement does not advance.
	replaceBefore = 2 * LeafLifetime
	// backdate is by how much a certificate is valid before the time of its issue, as the clocks of
	// machines differ.
	backdate = 5 * time.Minute
)

// CA is the certificate and the private key of a certificate authority.
type CA struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// Authority is a certificate authority over time. Its methods do not change it: Step returns a new
// one. The zero value has no certificate; the first Step makes one.
type Authority struct {
	// Issuing issues leaves. If its key was lost, Next issues missing leaves at once, and replaces
	// the leaves of Issuing after the overlap.
	Issuing CA
	Next    *Candidate // published, and will issue leaves; nil if no replacement is in progress
	Retired []Retired  // CAs that issue no more leaves; leaves of them may be in use
	// Replaced is the last value of Input.Replace that was followed.
	Replaced string
	// Lost is the time at which the previous CA was found to be lost. It is zero if none was, and
	// after the overlap with its successor.
	Lost time.Time
}

// Candidate is a CA that is published and does not issue yet.
type Candidate struct {
	CA
	Published time.Time
}

// Retired is the certificate of a CA that does not issue any more.
type Retired struct {
	Certificate *x509.Certificate
	Until       time.Time // expiry of the last leaf of the CA
}

// Input is what Step decides from, besides the time.
type Input struct {
	Name string // common name of new certificates
	// Loaded reports that every broker verifies with the present bundle. A CA does not begin to
	// issue before.
	Loaded bool
	// Replace requests a replacement of the CA if it differs from Authority.Replaced.
	Replace string
	// Overlap is used in place of the constant Overlap if it is not 0.
	Overlap time.Duration
	// Published are the certificates that were published last, that of the issuing CA first. If the
	// authority does not have the first one, it is another one than before, and keeps them.
	Published []*x509.Certificate
	// Lost reports that an authority without a certificate is not the first one.
	Lost bool
}

// Step returns the authority after the changes that are due at the time now. changed is false if
// nothing is due. It fails only if no certificate can be made.
func (a *Authority) Step(now time.Time, input Input) (next *Authority, changed bool, err error) {
	after := *a
	after.Retired = slices.Clone(a.Retired)
	steps := []func(time.Time, Input) (bool, error){after.dropExpired, after.recoverLost, after.begin,
		after.promote, after.settle, after.replace}
	for _, step := range steps {
		did, err := step(now, input)
		if err != nil {
			return nil, false, err
		}
		changed = changed || did
	}
	return &after, changed, nil
}

// dropExpired removes certificates that verify no leaf any more.
func (a *Authority) dropExpired(now time.Time, _ Input) (bool, error) {
	before := len(a.Retired)
	a.Retired = slices.DeleteFunc(a.Retired, func(r Retired) bool { return !now.Before(r.Until) })
	changed := len(a.Retired) != before
	if a.Next != nil && expired(a.Next.Certificate, now) {
		a.Next, changed = nil, true
	}
	return changed, nil
}

// begin makes the first CA, and replaces an expired one. In both cases no leaf is valid, so there
// is nothing to overlap with.
func (a *Authority) begin(now time.Time, input Input) (bool, error) {
	if a.Issuing.Certificate != nil && !expired(a.Issuing.Certificate, now) &&
		(a.Issuing.Key != nil || a.Next != nil) {
		return false, nil
	}
	if a.Next != nil {
		a.Issuing, a.Next = a.Next.CA, nil
		return true, nil
	}
	ca, err := newCA(input.Name, now)
	if err != nil {
		return false, err
	}
	if a.Issuing.Certificate == nil { // a later expiry does not fulfil a request
		a.Replaced = input.Replace
	}
	a.Issuing = ca
	return true, nil
}

// replace publishes the next CA if the present one expires soon, or on request.
func (a *Authority) replace(now time.Time, input Input) (bool, error) {
	requested := input.Replace != a.Replaced
	due := !now.Before(a.Issuing.Certificate.NotAfter.Add(-replaceBefore))
	if a.Next != nil || !requested && !due {
		return false, nil
	}
	ca, err := newCA(input.Name, now)
	if err != nil {
		return false, err
	}
	a.Next, a.Replaced = &Candidate{CA: ca, Published: now}, input.Replace
	return true, nil
}

// promote lets the next CA issue leaves once its certificate was published for long enough.
func (a *Authority) promote(now time.Time, input Input) (bool, error) {
	overlap := cmp.Or(input.Overlap, Overlap)
	if a.Next == nil || !input.Loaded || now.Before(a.Next.Published.Add(overlap)) {
		return false, nil
	}
	a.Retired = append(a.Retired, retire(a.Issuing.Certificate, now))
	a.Issuing, a.Next = a.Next.CA, nil
	return true, nil
}

// Certificates returns the certificates that verify leaves: of the issuing CA, of the next one, and
// of retired ones.
func (a *Authority) Certificates() []*x509.Certificate {
	var all []*x509.Certificate
	if a.Issuing.Certificate != nil {
		all = append(all, a.Issuing.Certificate)
	}
	if a.Next != nil {
		all = append(all, a.Next.Certificate)
	}
	for _, retired := range a.Retired {
		all = append(all, retired.Certificate)
	}
	return all
}

// Bundle returns the certificates as PEM.
func (a *Authority) Bundle() []byte {
	var bundle bytes.Buffer
	for _, certificate := range a.Certificates() {
		bundle.Write(encodeCertificate(certificate))
	}
	return bundle.Bytes()
}

// newCA makes a self-signed CA. It may issue leaves only, and no other CAs.
func newCA(name string, now time.Time) (CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return CA{}, fmt.Errorf("generate a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(CALifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	certificate, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return CA{}, err
	}
	return CA{Certificate: certificate, Key: key}, nil
}

// sign returns a certificate with a random serial number.
func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey,
	signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

func expired(certificate *x509.Certificate, now time.Time) bool {
	return now.After(certificate.NotAfter)
}

// errNoCA is returned by an authority without a certificate.
var errNoCA = errors.New("the authority has no certificate")
