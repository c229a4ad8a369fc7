package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strconv"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/tlsconfig"
)

// HTTPServer returns the TLS configuration of the HTTP port. The port uses the broker's certificate
// for connections between brokers. It does not require client certificates, because the kubelet and
// users have none, but verifies those that clients send.
func (c *Certificates) HTTPServer() *tls.Config {
	current := c.cached(func(m *material) *tls.Config {
		if m.peer == nil || m.peerCA == nil {
			return refusing(errNoCertificate)
		}
		config := tlsconfig.New(*m.peer)
		config.ClientCAs, config.SessionTicketsDisabled = m.peerCA, true
		config.ClientAuth = tls.VerifyClientCertIfGiven
		return config
	})
	return tlsconfig.ServeAs(func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := current()
		if config.GetConfigForClient != nil {
			return config.GetConfigForClient(hello)
		}
		return config, nil
	})
}

// peerIdentity is the identity in a certificate from the peer CA.
type peerIdentity struct {
	uri      string
	operator bool
	broker   int32 // broker id of the client; unset if operator is true
}

// identifyPeer returns the identity in a certificate from a LogCluster's peer CA. The identity is
// the only URI in the certificate. The CA issues certificates only to brokers and the operator.
func identifyPeer(leaf *x509.Certificate, namespace, cluster string) (peerIdentity, error) {
	uri, err := singleURI(leaf)
	if err != nil {
		return peerIdentity{}, err
	}
	if uri == v1alpha1.OperatorURI(namespace, cluster) {
		return peerIdentity{uri: uri, operator: true}, nil
	}
	prefix := strings.TrimSuffix(v1alpha1.PeerURI(namespace, cluster, 0), "0")
	digits, ok := strings.CutPrefix(uri, prefix)
	id, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || uri != v1alpha1.PeerURI(namespace, cluster, int32(id)) {
		return peerIdentity{}, errors.New("the certificate is not one of a broker of this cluster")
	}
	return peerIdentity{uri: uri, broker: int32(id)}, nil
}

// HTTPPeer returns the value of access.Options.Peer for a LogCluster's brokers.
func HTTPPeer(namespace, cluster string) func(*tls.ConnectionState) (string, error) {
	return func(state *tls.ConnectionState) (string, error) {
		if len(state.VerifiedChains) == 0 {
			return "", errors.New("the client has no verified certificate")
		}
		peer, err := identifyPeer(state.PeerCertificates[0], namespace, cluster)
		return peer.uri, err
	}
}
