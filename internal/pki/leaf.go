package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request describes a leaf certificate.
type Request struct {
	CommonName string
	DNSNames   []string
	IPs        []netip.Addr
	URIs       []string
	Server     bool // server authentication
	Client     bool // client authentication
}

// Leaf is a certificate with its private key.
type Leaf struct {
	Certificate *x509.Certificate
	// Chain is the PEM of the certificate and, if another CA issued it, of its intermediate
	// certificates.
	Chain []byte
	Key   []byte // PKCS #8, PEM
}

// Issue returns a new leaf. It is valid for LeafLifetime, but not longer than its CA.
func (a *Authority) Issue(request Request, now time.Time) (Leaf, error) {
	issuer := a.issuer()
	if issuer.Key == nil {
		return Leaf{}, fmt.Errorf("issue certificate %s: %w", request.CommonName, errNoCA)
	}
	template, err := request.template()
	if err != nil {
		return Leaf{}, err
	}
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(LeafLifetime)
	if end := issuer.Certificate.NotAfter; end.Before(template.NotAfter) {
		template.NotAfter = end
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Leaf{}, fmt.Errorf("generate a key: %w", err)
	}
	certificate, err := sign(template, issuer.Certificate, &key.PublicKey, issuer.Key)
	if err != nil {
		return Leaf{}, err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return Leaf{}, err
	}
	return Leaf{Certificate: certificate, Chain: encodeCertificate(certificate),
		Key: encoded}, nil
}

// template returns a certificate template without a validity period.
func (r Request) template() (*x509.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: r.CommonName}, DNSNames: r.DNSNames,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, address := range r.IPs {
		template.IPAddresses = append(template.IPAddresses, address.Unmap().AsSlice())
	}
	for _, text := range r.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse URI of certificate %s: %w", r.CommonName, err)
		}
		template.URIs = append(template.URIs, uri)
	}
	if r.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if r.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	return template, nil
}

// Reasons that Due returns.
const (
	dueOtherCA = "issued by another CA"
	dueExpiry  = "expires soon"
	dueNames   = "other names"
)

// Due returns the reason why a leaf must be issued again, or "" if that is not necessary. A nil
// certificate is due.
func (a *Authority) Due(leaf Leaf, request Request, now time.Time) string {
	certificate := leaf.Certificate
	switch {
	case certificate == nil:
		return "missing"
	case a.Issuing.Key == nil:
		return a.dueWithoutKey(certificate, request, now)
	case certificate.CheckSignatureFrom(a.Issuing.Certificate) != nil:
		return dueOtherCA
	case !now.Before(RenewalOf(certificate)):
		return dueExpiry
	case names(certificate) != request.names():
		return dueNames
	}
	return ""
}

// RenewalOf returns the time at which a certificate must be renewed, which is after two thirds of
// its lifetime.
func RenewalOf(certificate *x509.Certificate) time.Time {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(lifetime / 3 * 2)
}

// names returns everything that a certificate certifies as one text, which does not depend on the
// order of names.
func names(c *x509.Certificate) string {
	all := []string{"cn=" + c.Subject.CommonName}
	for _, name := range c.DNSNames {
		all = append(all, "dns="+name)
	}
	for _, address := range c.IPAddresses {
		all = append(all, "ip="+address.String())
	}
	for _, uri := range c.URIs {
		all = append(all, "uri="+uri.String())
	}
	for _, usage := range c.ExtKeyUsage {
		all = append(all, fmt.Sprintf("usage=%d", usage))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// names returns the names in the certificate that the request describes. If the request contains an
// invalid URI, it returns "", so that Issue is called and reports the error.
func (r Request) names() string {
	template, err := r.template()
	if err != nil {
		return ""
	}
	return names(template)
}

// Check returns an error if a leaf that another CA issued cannot authenticate a server at the time
// now.
func (l Leaf) Check(now time.Time) error {
	switch usages := l.Certificate.ExtKeyUsage; {
	case now.After(l.Certificate.NotAfter):
		return fmt.Errorf("the certificate expired at %s",
			l.Certificate.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(l.Certificate.NotBefore):
		return fmt.Errorf("the certificate is not valid before %s",
			l.Certificate.NotBefore.UTC().Format(time.RFC3339))
	case len(usages) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(usages, x509.ExtKeyUsageAny):
		return errors.New("the certificate does not allow server authentication")
	case l.Certificate.IsCA:
		return errors.New("the certificate is that of a CA")
	}
	return nil
}
