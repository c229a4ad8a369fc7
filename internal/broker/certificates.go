package broker

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/certname"
	"heartwood.dev/heartwood/internal/tlsconfig"
	"heartwood.dev/heartwood/internal/wire"
)

// Certificates contains a broker's certificates and keys. Update replaces them without a restart:
// new connections use the new certificates, and open connections continue.
type Certificates struct {
	updating sync.Mutex
	current  atomic.Pointer[material]
}

// material is one state of Certificates. It is immutable.
type material struct {
	listeners map[string]*listenerMaterial
	usersCA   *x509.CertPool // nil: not known yet
	// peerCA and peer are nil until the broker has a certificate for connections between brokers.
	peerCA *x509.CertPool
	peer   *tls.Certificate
}

// listenerMaterial contains a listener's certificate and the CAs of its clients.
type listenerMaterial struct {
	certificate *tls.Certificate
	// clientCAs contains the CAs from Authentication.ClientCAs; nil: the listener uses the users CA.
	clientCAs *x509.CertPool
	// oauthCA contains the CA from OAuth.CA; nil: the listener uses the public CAs.
	oauthCA *x509.CertPool
}

// NewCertificates returns empty Certificates. Listeners with TLS refuse connections until Update is
// called.
func NewCertificates() *Certificates {
	c := &Certificates{}
	c.current.Store(&material{})
	return c
}

// Update replaces the certificates and keys with those in data, which has the keys of the Secret
// v1alpha1.BrokersTLSSecretName. If an entry is missing or invalid, its current value remains in
// use. The error names such entries, but never contains key material.
func (c *Certificates) Update(data map[string][]byte, listeners []string, broker int32) error {
	c.updating.Lock()
	defer c.updating.Unlock()
	next := *c.current.Load()
	next.listeners = maps.Clone(next.listeners)
	if next.listeners == nil {
		next.listeners = map[string]*listenerMaterial{}
	}
	var faults []error
	pool := func(key string, into **x509.CertPool) {
		if content, ok := data[key]; ok {
			if parsed, err := parsePool(content); err != nil {
				faults = append(faults, fmt.Errorf("read %s: %w", key, err))
			} else {
				*into = parsed
			}
		}
	}
	pair := func(certificateKey, privateKey string, into **tls.Certificate) {
		if _, ok := data[certificateKey]; !ok {
			return
		}
		if parsed, err := tls.X509KeyPair(data[certificateKey], data[privateKey]); err != nil {
			faults = append(faults, fmt.Errorf("read %s and %s: %w", certificateKey, privateKey, err))
		} else {
			*into = &parsed
		}
	}
	pool(v1alpha1.KeyUsersCA, &next.usersCA)
	pool(v1alpha1.KeyPeerCA, &next.peerCA)
	certificateKey, privateKey := v1alpha1.PeerCertificateKeys(broker)
	pair(certificateKey, privateKey, &next.peer)
	for _, name := range listeners {
		loaded := &listenerMaterial{}
		if present := next.listeners[name]; present != nil {
			*loaded = *present
		}
		certificateKey, privateKey := v1alpha1.ListenerCertificateKeys(name)
		pair(certificateKey, privateKey, &loaded.certificate)
		if _, own := data[v1alpha1.ListenerClientCAKey(name)]; own {
			pool(v1alpha1.ListenerClientCAKey(name), &loaded.clientCAs)
		} else {
			loaded.clientCAs = nil
		}
		if _, own := data[v1alpha1.ListenerOAuthCAKey(name)]; own {
			pool(v1alpha1.ListenerOAuthCAKey(name), &loaded.oauthCA)
		} else {
			loaded.oauthCA = nil
		}
		next.listeners[name] = loaded
	}
	c.current.Store(&next)
	return errors.Join(faults...)
}

// parsePool returns a pool with the certificates in a PEM file. If the file contains no
// certificate, the pool is empty, so that every client certificate is invalid.
func parsePool(content []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(certificate)
	}
	return pool, nil
}

// Reasons for failed TLS handshakes.
var (
	errNoCertificate = errors.New("the listener has no certificate yet")
	errNoClientCA    = errors.New("the CA of clients is not known yet")
)

// server returns a getter for a listener's TLS configuration, which is rebuilt only when the
// certificates have changed.
func (c *Certificates) server(listener string, mutual bool) func() *tls.Config {
	return c.cached(func(m *material) *tls.Config {
		loaded := m.listeners[listener]
		if loaded == nil || loaded.certificate == nil {
			return refusing(errNoCertificate)
		}
		config := serverConfig(loaded.certificate)
		if !mutual {
			return config
		}
		config.ClientCAs = loaded.clientCAs
		if config.ClientCAs == nil {
			config.ClientCAs = m.usersCA
		}
		if config.ClientCAs == nil { // a nil pool would mean the system's CAs
			return refusing(errNoClientCA)
		}
		requireClients(config)
		return config
	})
}

// peerServer returns the TLS configuration of the listener for other brokers and the operator.
func (c *Certificates) peerServer() func() *tls.Config {
	return c.cached(func(m *material) *tls.Config {
		if m.peer == nil || m.peerCA == nil {
			return refusing(errNoCertificate)
		}
		config := serverConfig(m.peer)
		config.ClientCAs = m.peerCA
		requireClients(config)
		return config
	})
}

// cached returns a function that returns the result of build for the current material. The function
// calls build once for each material.
func (c *Certificates) cached(build func(*material) *tls.Config) func() *tls.Config {
	type built struct {
		material *material
		config   *tls.Config
	}
	var last atomic.Pointer[built]
	return func() *tls.Config {
		now := c.current.Load()
		if l := last.Load(); l != nil && l.material == now {
			return l.config
		}
		next := &built{now, build(now)}
		last.Store(next)
		return next.config
	}
}

func serverConfig(certificate *tls.Certificate) *tls.Config {
	config := tlsconfig.New(*certificate)
	// Kafka clients keep connections open for a long time, so full TLS records are better than small
	// first records.
	config.DynamicRecordSizingDisabled = true
	return config
}

// requireClients makes the configuration require a client certificate. It disables the resumption
// of TLS sessions, because otherwise a session ticket would remain valid after its CA was removed.
func requireClients(config *tls.Config) {
	config.ClientAuth, config.SessionTicketsDisabled = tls.RequireAndVerifyClientCert, true
}

// refusing returns a configuration with which every handshake fails with the given reason.
func refusing(reason error) *tls.Config {
	return tlsconfig.ServeAs(func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, reason })
}

// client returns the session for a client with a verified certificate. A listener without its own
// CAs accepts only certificates of LogUsers, and the principal is the common name. On a listener
// with its own CAs, the mapping rules determine the principal. Otherwise each of these CAs could
// issue certificates for the name of any LogUser.
func (c *Certificates) client(listener string,
	rules certname.Rules) func(*tls.ConnectionState) (*wire.Session, error) {
	return func(state *tls.ConnectionState) (*wire.Session, error) {
		leaf := state.PeerCertificates[0]
		loaded := c.current.Load().listeners[listener]
		var name string
		if loaded == nil || loaded.clientCAs == nil {
			var ok bool
			if name, ok = certname.CommonName(leaf.Subject); !ok {
				return nil, errors.New("the certificate has no single common name")
			}
		} else {
			dn, err := certname.DN(leaf.RawSubject)
			if err != nil {
				return nil, err
			}
			if name, err = rules.Apply(dn); err != nil {
				return nil, err
			}
		}
		return &wire.Session{Principal: wire.Principal{Type: "User", Name: name},
			Mechanism: wire.MechanismTLS}, nil
	}
}

// mechanisms returns a listener's SASL mechanisms, and whether its clients authenticate with
// certificates.
func mechanisms(authentication []v1alpha1.Authentication) (names []string, certificates bool) {
	byType := map[v1alpha1.AuthenticationType]string{
		v1alpha1.AuthenticationScramSha256: v1alpha1.ScramSha256,
		v1alpha1.AuthenticationScramSha512: v1alpha1.ScramSha512,
		v1alpha1.AuthenticationOAuthBearer: v1alpha1.OAuthBearer,
	}
	for i := range authentication {
		if name, ok := byType[authentication[i].Type]; ok {
			names = append(names, name)
		}
		certificates = certificates || authentication[i].Type == v1alpha1.AuthenticationTLS
	}
	slices.Sort(names)
	return names, certificates
}
