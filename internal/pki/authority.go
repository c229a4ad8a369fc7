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
	// CALifetime is the lifetime of a CA certificate.
	CALifetime = 3 * 365 * 24 * time.Hour
	// LeafLifetime is the maximum lifetime of a leaf certificate.
	LeafLifetime = 90 * 24 * time.Hour
	// Overlap is the minimum time for which a new CA's certificate is published before the CA issues
	// leaves, unless Input.Overlap is shorter.
	Overlap = 24 * time.Hour

	// replaceBefore is how long before its expiry a CA is replaced. If the replacement does not make
	// progress, this leaves time to notice it.
	replaceBefore = 2 * LeafLifetime
	// backdate is how long before the time of issue a certificate is already valid, because the clocks
	// of machines differ.
	backdate = 5 * time.Minute
)

// CA is a certificate authority's certificate and private key.
type CA struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// Authority is a certificate authority whose certificate is replaced over time. Its methods do not
// modify it: Step returns a new Authority. The zero value has no certificate; the first Step
// creates one.
type Authority struct {
	// Issuing is the CA that issues leaves. If its key was lost, Next issues missing leaves
	// immediately, and replaces Issuing's leaves after the overlap.
	Issuing CA
	Next    *Candidate // published, issues leaves later; nil: no replacement is in progress
	Retired []Retired  // CAs that no longer issue leaves, but whose leaves may be in use
	// Replaced is the last value of Input.Replace that was carried out.
	Replaced string
	// Lost is the time at which the loss of the previous CA was detected. It is zero if no CA was
	// lost, and after the overlap with the successor.
	Lost time.Time
}

// Candidate is a CA that is published but does not issue leaves yet.
type Candidate struct {
	CA
	Published time.Time
}

// Retired is the certificate of a CA that no longer issues leaves.
type Retired struct {
	Certificate *x509.Certificate
	Until       time.Time // expiry of the CA's last leaf
}

// Input contains the inputs of Step, in addition to the time.
type Input struct {
	Name string // common name for new certificates
	// Loaded is true if every broker uses the current bundle to verify certificates. A CA does not
	// issue leaves before that.
	Loaded bool
	// Replace requests a replacement of the CA if its value differs from Authority.Replaced.
	Replace string
	// Overlap replaces the constant Overlap if it is not 0.
	Overlap time.Duration
	// Published contains the certificates that were published last, with the issuing CA's first. If
	// the authority does not contain the first one, the authority was replaced by another one, and it
	// keeps the published certificates.
	Published []*x509.Certificate
	// Lost is true if an authority without a certificate replaces a lost one.
	Lost bool
}

// Step returns the authority after the changes that are due at the time now. Result changed is
// false if nothing is due. Step fails only if a certificate cannot be created.
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

// dropExpired removes CA certificates whose leaves have all expired.
func (a *Authority) dropExpired(now time.Time, _ Input) (bool, error) {
	before := len(a.Retired)
	a.Retired = slices.DeleteFunc(a.Retired, func(r Retired) bool { return !now.Before(r.Until) })
	changed := len(a.Retired) != before
	if a.Next != nil && expired(a.Next.Certificate, now) {
		a.Next, changed = nil, true
	}
	return changed, nil
}

// begin creates the first CA, and replaces an expired CA. In both cases no leaf is valid, so no
// overlap is necessary.
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
	if a.Issuing.Certificate == nil { // only the first CA fulfils a request
		a.Replaced = input.Replace
	}
	a.Issuing = ca
	return true, nil
}

// replace publishes the next CA if the current CA expires soon, or on request.
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

// promote makes the next CA issue leaves when its certificate has been published for long enough.
func (a *Authority) promote(now time.Time, input Input) (bool, error) {
	overlap := cmp.Or(input.Overlap, Overlap)
	if a.Next == nil || !input.Loaded || now.Before(a.Next.Published.Add(overlap)) {
		return false, nil
	}
	a.Retired = append(a.Retired, retire(a.Issuing.Certificate, now))
	a.Issuing, a.Next = a.Next.CA, nil
	return true, nil
}

// Certificates returns the CA certificates that verify leaves. They belong to the issuing CA, the
// next CA and the retired CAs.
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

// newCA creates a self-signed CA. It may issue leaves, but no other CAs.
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

// errNoCA means that the authority has no certificate.
var errNoCA = errors.New("the authority has no certificate")
