package pki

import (
	"cmp"
	"crypto/x509"
	"slices"
	"time"
)

// recoverLost keeps the published certificates of a CA that was lost, or that was replaced by
// another CA without an overlap. Leaves of the lost CA remain in use. So its successor becomes the
// next CA, and does not issue before it was published for as long as in any other replacement.
func (a *Authority) recoverLost(now time.Time, input Input) (changed bool, err error) {
	lost := a.Issuing.Certificate == nil
	if len(input.Published) == 0 || a.Has(input.Published[0]) ||
		expired(input.Published[0], now) {
		if lost && input.Lost { // there are no certificates to keep
			a.Lost = now
		}
		return false, nil
	}
	next := a.Issuing
	if lost {
		if next, err = newCA(input.Name, now); err != nil {
			return false, err
		}
		a.Replaced = input.Replace
	}
	for _, certificate := range input.Published[1:] {
		if !a.Has(certificate) && !expired(certificate, now) {
			a.Retired = append(a.Retired, retire(certificate, now))
		}
	}
	a.Issuing, a.Next = CA{Certificate: input.Published[0]}, &Candidate{CA: next, Published: now}
	a.Lost = now
	return true, nil
}

// settle clears the loss of a CA after the overlap with its successor.
func (a *Authority) settle(now time.Time, input Input) (bool, error) {
	if a.Lost.IsZero() || a.Issuing.Key == nil ||
		now.Before(a.Lost.Add(cmp.Or(input.Overlap, Overlap))) {
		return false, nil
	}
	a.Lost = time.Time{}
	return true, nil
}

// Has reports whether the authority contains a CA certificate.
func (a *Authority) Has(certificate *x509.Certificate) bool {
	return slices.ContainsFunc(a.Certificates(), certificate.Equal)
}

// Issued reports whether one of the authority's CAs has issued a certificate.
func (a *Authority) Issued(certificate *x509.Certificate) bool {
	return IssuedBy(certificate, a.Certificates())
}

// IssuedBy reports whether one of the given CAs has issued a certificate.
func IssuedBy(certificate *x509.Certificate, authorities []*x509.Certificate) bool {
	return slices.ContainsFunc(authorities, func(ca *x509.Certificate) bool {
		return certificate.CheckSignatureFrom(ca) == nil
	})
}

// retire returns the retired form of a certificate whose CA may have issued leaves until now.
func retire(certificate *x509.Certificate, now time.Time) Retired {
	until := now.Add(LeafLifetime)
	if end := certificate.NotAfter; end.Before(until) {
		until = end
	}
	return Retired{Certificate: certificate, Until: until}
}

// issuer returns the CA that currently issues leaves.
func (a *Authority) issuer() CA {
	if a.Issuing.Key == nil && a.Next != nil {
		return a.Next.CA
	}
	return a.Issuing
}

// PublishedIn reports whether a bundle contains the CA that currently issues leaves.
func (a *Authority) PublishedIn(bundle []byte) bool {
	certificates, err := ParseCertificates(bundle)
	return err == nil && slices.ContainsFunc(certificates, a.issuer().Certificate.Equal)
}

// dueWithoutKey is Due while the issuing CA's key is lost. A new leaf would be issued by the next
// CA, which some peers have not loaded yet. So a leaf is due only if it cannot wait. New host names
// and addresses can wait, because a new leaf would lock out the clients of all other names.
func (a *Authority) dueWithoutKey(certificate *x509.Certificate, request Request,
	now time.Time) string {
	switch {
	case !a.Issued(certificate):
		return dueOtherCA
	case !now.Before(certificate.NotAfter.Add(-Overlap)):
		return dueExpiry
	case certificate.Subject.CommonName != request.CommonName:
		return dueNames
	}
	return ""
}
