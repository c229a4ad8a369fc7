//go:build dashboards

package dashboards

import (
	"crypto/x509"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/certs"
)

// serverSecret returns the data of a Secret with a certificate that expires after left, and with
// the certificate's CA.
func serverSecret(t *testing.T, left time.Duration) map[string][]byte {
	t.Helper()
	ca := certs.New(t, "ca")
	chain, key := certs.KeyPEM(t, ca.Leaf(&x509.Certificate{DNSNames: []string{"*.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}))
	return map[string][]byte{"ca.crt": ca.PEM(), "tls.crt": chain, "tls.key": key}
}
