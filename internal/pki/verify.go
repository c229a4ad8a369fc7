package pki

import (
	"crypto/x509"
	"errors"
	"time"
)

// VerifyServer verifies a server's certificate chain at a given time, without the host name, and
// returns the URI in its certificate. Brokers and the operator identify each other by this URI. It
// fails if the chain is empty or not trusted, or if the certificate does not contain exactly one
// URI.
func VerifyServer(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (uri string,
	err error) {
	if len(chain) == 0 {
		return "", errors.New("the server has sent no certificate")
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, intermediate := range chain[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return "", err
	}
	if len(chain[0].URIs) != 1 {
		return "", errors.New("the certificate is not one of a broker or the operator")
	}
	return chain[0].URIs[0].String(), nil
}
