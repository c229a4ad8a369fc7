package broker

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/tlsscan"
)

// TestListenersAcceptModernTLSOnly checks that the client listeners with and without client
// certificates, the port for other brokers, and the HTTP port accept only modern TLS.
func TestListenersAcceptModernTLSOnly(t *testing.T) {
	c := newSecureCluster(t, 1)
	b := c.brokers[0]
	web := newSecuredHTTP(t)
	web.load(web.ca)
	ofListener := func(certificate *x509.Certificate) error {
		_, err := certificate.Verify(x509.VerifyOptions{Roots: c.ca.Pool(), DNSName: "localhost"})
		return err
	}
	ofPeer := func(certificate *x509.Certificate) error {
		if uri, err := singleURI(certificate); err != nil || uri != v1alpha1.PeerURI("ns", "demo", 0) {
			return fmt.Errorf("the URI is %q: %w", uri, err)
		}
		return nil
	}
	alice := c.users.Client(pkix.Name{CommonName: "alice"})
	for _, s := range []tlsscan.Server{
		{Address: b.listeners[0].endpoint.String(), Certificate: ofListener},
		{Address: b.listeners[1].endpoint.String(), Certificate: ofListener, NeedsCertificate: true,
			Config: &tls.Config{Certificates: []tls.Certificate{alice}}},
		{Address: b.peers.socket.Addr().String(), Certificate: ofPeer, NeedsCertificate: true,
			Config: &tls.Config{Certificates: []tls.Certificate{leaf(t, c.peers,
				v1alpha1.PeerURI("ns", "demo", 1))}}},
		{Address: web.server.Listener.Addr().String(), Certificate: ofPeer},
	} {
		if s.Config == nil {
			s.Config = &tls.Config{}
		}
		s.Config.InsecureSkipVerify = true // Certificate checks the server's certificate instead
		tlsscan.Scan(t, &s)
	}
}
