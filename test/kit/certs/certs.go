// Package certs issues certificates for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"
)

// CA is a certificate authority.
type CA struct {
	t           testing.TB
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issuer      *CA // nil: self-signed
}

// New returns a self-signed CA.
func New(t testing.TB, name string) *CA {
	t.Helper()
	ca := &CA{t: t}
	ca.Certificate, ca.key = ca.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return ca
}

// Intermediate returns a CA whose certificate is issued by c.
func (c *CA) Intermediate(name string) *CA {
	c.t.Helper()
	sub := &CA{t: c.t, issuer: c}
	sub.Certificate, sub.key = c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return sub
}

// Pool returns a pool with the CA's certificate.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate)
	return pool
}

// PEM returns the CA's certificate in PEM.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate.Raw})
}

// Server returns a certificate for 127.0.0.1 and localhost.
func (c *CA) Server(name string) tls.Certificate {
	c.t.Helper()
	return c.leaf(&x509.Certificate{Subject: pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// Client returns a certificate for a client.
func (c *CA) Client(subject pkix.Name) tls.Certificate {
	c.t.Helper()
	return c.leaf(&x509.Certificate{Subject: subject,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Leaf returns a certificate for a template. The template does not have to contain times or a
// serial number.
func (c *CA) Leaf(template *x509.Certificate) tls.Certificate {
	c.t.Helper()
	return c.leaf(template)
}

func (c *CA) leaf(template *x509.Certificate) tls.Certificate {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	certificate, key := c.sign(template)
	chain := [][]byte{certificate.Raw}
	for ca := c; ca.issuer != nil; ca = ca.issuer {
		chain = append(chain, ca.Certificate.Raw)
	}
	return tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: certificate}
}

// sign issues a certificate. If the CA has no certificate yet, sign issues the CA's own
// certificate.
func (c *CA) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	parent, signer := c.Certificate, c.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		c.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	return certificate, key
}

// KeyPEM returns the chain and the private key of a certificate, in PEM.
func KeyPEM(t testing.TB, certificate tls.Certificate) (chain, key []byte) {
	t.Helper()
	for _, der := range certificate.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
