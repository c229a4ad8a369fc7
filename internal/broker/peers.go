package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/tlsconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// peersListener is the name of the listener for other brokers and the operator.
const peersListener = "peers"

// openPeers opens the port for other brokers if PeerListen is set.
func (b *Broker) openPeers() error {
	if b.opts.PeerListen == "" {
		return b.checkPlainPeers()
	}
	if b.opts.Certificates == nil {
		return errors.New("peer connections with TLS need certificates")
	}
	socket, err := listen(b.opts.PeerListen)
	if err != nil {
		return fmt.Errorf("listen on %s for other brokers: %w", b.opts.PeerListen, err)
	}
	b.peers = &openListener{Listener: Listener{Name: peersListener}, socket: socket}
	return nil
}

// checkPlainPeers returns an error if other brokers cannot fetch from this broker. They connect to
// the first listener without TLS and authentication, so that listener must require neither.
func (b *Broker) checkPlainPeers() error {
	if first := b.listeners[0].Listener; first.TLS || len(first.Authentication) > 0 {
		return fmt.Errorf("other brokers connect to listener %s without TLS and authentication: "+
			"configure a port for peer connections", first.Name)
	}
	return nil
}

// peerAddress returns the address at which other brokers reach this broker. It returns "" if that
// is the default listener's endpoint.
func (b *Broker) peerAddress() (string, error) {
	listens, scheme, host := b.listeners[0], "", b.opts.PeerHost
	if b.peers != nil {
		listens, scheme = b.peers, metadata.PeerTLS
		if host == "" {
			host = b.listeners[0].endpoint.Host
		}
	}
	if host == "" {
		return "", nil
	}
	_, port, err := net.SplitHostPort(listens.socket.Addr().String())
	if err != nil {
		return "", fmt.Errorf("parse the listener's address: %w", err)
	}
	return scheme + net.JoinHostPort(host, port), nil
}

// peerSecurity returns the security settings of the listener for other brokers.
func (b *Broker) peerSecurity() wire.Security {
	return wire.Security{TLS: b.opts.Certificates.peerServer(), Certificate: b.peerSession,
		Plain: b.plainPeers}
}

// peerSession returns a session for a broker or the operator, identified by the URI in its
// certificate.
func (b *Broker) peerSession(state *tls.ConnectionState) (*wire.Session, error) {
	peer, err := identifyPeer(state.PeerCertificates[0], b.opts.Namespace, b.opts.Cluster)
	if err != nil {
		return nil, err
	}
	session := &wire.Session{Mechanism: wire.MechanismTLS, Role: wire.RoleOperator,
		Principal: wire.Principal{Type: "Peer", Name: peer.uri}}
	if !peer.operator {
		session.Role, session.Broker = wire.RoleBroker, peer.broker
	}
	return session, nil
}

// singleURI returns the certificate's only URI.
func singleURI(certificate *x509.Certificate) (string, error) {
	if len(certificate.URIs) != 1 {
		return "", fmt.Errorf("the certificate has %d URIs, want 1", len(certificate.URIs))
	}
	return certificate.URIs[0].String(), nil
}

// dialPeer connects to another broker at its registered address. A broker without certificates
// connects without TLS; the port for peers accepts such connections until all brokers have
// certificates, because a rolling update to TLS, or back, would otherwise stop replication.
func (b *Broker) dialPeer(ctx context.Context, to metadata.Broker) (*wire.Peer, error) {
	name := b.clientID()
	address, secure := strings.CutPrefix(to.Peer, metadata.PeerTLS)
	if address == "" {
		endpoint, ok := to.Endpoints.On(metadata.DefaultListener)
		if !ok {
			return nil, fmt.Errorf("broker %d has no endpoint on listener %s", to.ID,
				metadata.DefaultListener)
		}
		address = endpoint.String()
	}
	if !secure || b.opts.Certificates == nil {
		return wire.DialPeer(ctx, b.opts.Dialer, address, name)
	}
	config, err := b.peerClient(to.ID)
	if err != nil {
		return nil, err
	}
	socket, err := b.opts.Dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	stream := tls.Client(socket, config)
	if err := stream.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("authenticate broker %d: %w", to.ID, err)
	}
	return wire.NewPeer(stream, name), nil
}

// peerClient returns the TLS configuration for a connection to another broker. The address may by
// now belong to another pod. Therefore not a host name is verified, but the URI in the certificate,
// which contains the broker id.
func (b *Broker) peerClient(to int32) (*tls.Config, error) {
	m := b.opts.Certificates.current.Load()
	if m.peer == nil || m.peerCA == nil {
		return nil, errNoCertificate
	}
	want := v1alpha1.PeerURI(b.opts.Namespace, b.opts.Cluster, to)
	return tlsconfig.VerifyBy(func(state tls.ConnectionState) error {
		return verifyPeer(&state, m.peerCA, want)
	}, *m.peer), nil
}

// verifyPeer verifies a server's certificate chain and the URI in its certificate.
func verifyPeer(state *tls.ConnectionState, roots *x509.CertPool, want string) error {
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, intermediate := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(intermediate)
	}
	leaf := state.PeerCertificates[0]
	if _, err := leaf.Verify(options); err != nil {
		return err
	}
	if uri, err := singleURI(leaf); err != nil || uri != want {
		return fmt.Errorf("the certificate is that of %q, want %q", uri, want)
	}
	return nil
}

// plainPeers reports whether followers may still fetch without TLS, because this broker has no port
// for peers or some broker has not registered a TLS address yet.
func (b *Broker) plainPeers() bool {
	if b.peers == nil {
		return true
	}
	for _, other := range b.image().Brokers {
		if !strings.HasPrefix(other.Peer, metadata.PeerTLS) {
			return true
		}
	}
	return false
}

// plainFollower reports whether clients of a listener may act as brokers without a certificate. If
// this broker has a port for peers, only clients of that port may, because other brokers find that
// port in the registration and connect to no other.
func (b *Broker) plainFollower(listener string) bool {
	return (b.peers == nil || listener == peersListener) && b.plainPeers()
}
