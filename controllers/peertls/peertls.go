// Package peertls makes the TLS configurations with which the operator connects to the brokers'
// peer port and HTTP port. The operator owns the peer CA and issues its own certificate with it.
// This certificate is never stored.
package peertls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
	"heartwood.dev/heartwood/internal/tlsconfig"
)

// Client makes configurations. It is safe for concurrent use.
type Client struct {
	reader client.Reader
	now    func(namespace string) time.Time
	mu     struct {
		sync.Mutex
		issued map[types.NamespacedName]issued // by LogCluster
	}
}

// issued is the operator's certificate for a LogCluster.
type issued struct {
	version     string // resource version of the CA's Secret
	leaf        pki.Leaf
	certificate tls.Certificate
	roots       *x509.CertPool
}

// New returns a Client that uses reader to read the Secrets of peer CAs. now can be nil.
func New(reader client.Reader, now func(namespace string) time.Time) *Client {
	c := &Client{reader: reader, now: now}
	if c.now == nil {
		c.now = func(string) time.Time { return time.Now() }
	}
	c.mu.issued = map[types.NamespacedName]issued{}
	return c
}

// Config returns the configuration for a connection to a broker. The configuration verifies the URI
// in the certificate, which contains the broker's id, because a pod's address may belong to another
// pod by now.
func (c *Client) Config(ctx context.Context, cluster types.NamespacedName,
	broker int32) (*tls.Config, error) {
	secret := &corev1.Secret{}
	if err := c.reader.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace,
		Name: v1alpha1.PeerCASecretName(cluster.Name)}, secret); err != nil {
		return nil, fmt.Errorf("read the peer CA: %w", err)
	}
	own, err := c.certificate(cluster, secret)
	if err != nil {
		return nil, err
	}
	want := v1alpha1.PeerURI(cluster.Namespace, cluster.Name, broker)
	return tlsconfig.VerifyBy(func(state tls.ConnectionState) error {
		return verify(state.PeerCertificates, own.roots, time.Now(), want)
	}, own.certificate), nil
}

// HTTP returns the URL scheme of a broker's HTTP port, and the transport for requests to this port.
// plain is the transport for brokers without TLS; nil: http.DefaultTransport. The broker's Lease
// says whether it uses TLS, because only some brokers use it while a LogCluster is being secured.
func (c *Client) HTTP(ctx context.Context, cluster types.NamespacedName, broker int32,
	plain http.RoundTripper) (scheme string, transport http.RoundTripper, err error) {
	lease := &coordinationv1.Lease{}
	err = c.reader.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace,
		Name: v1alpha1.BrokerLeaseName(cluster.Name, broker)}, lease)
	if client.IgnoreNotFound(err) != nil {
		return "", nil, fmt.Errorf("read the lease of broker %d: %w", broker, err)
	}
	if !v1alpha1.ReadRegistration(lease).PeerTLS {
		return "http", plain, nil
	}
	config, err := c.Config(ctx, cluster, broker)
	if err != nil {
		return "", nil, err
	}
	// Each connection serves one request, because the configuration is specific to one broker, and the
	// operator's certificate can change.
	return "https", &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, nil
}

// certificate returns the operator's certificate. If a renewal is due, it issues a new one.
func (c *Client) certificate(cluster types.NamespacedName,
	secret *corev1.Secret) (issued, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, request := c.now(cluster.Namespace), pki.Request{CommonName: "operator", Client: true,
		URIs: []string{v1alpha1.OperatorURI(cluster.Namespace, cluster.Name)}}
	peer, ok := c.mu.issued[cluster]
	if ok && peer.version == secret.ResourceVersion &&
		now.Before(pki.RenewalOf(peer.leaf.Certificate)) {
		return peer, nil
	}
	authority, err := pki.Decode(secret.Data)
	if err != nil {
		return issued{}, fmt.Errorf("decode the peer CA: %w", err)
	}
	if authority.Due(peer.leaf, request, now) != "" {
		if peer.leaf, err = authority.Issue(request, now); err != nil {
			return issued{}, err
		}
		if peer.certificate, err = tls.X509KeyPair(peer.leaf.Chain, peer.leaf.Key); err != nil {
			return issued{}, fmt.Errorf("decode the operator's certificate: %w", err)
		}
	}
	peer.version, peer.roots = secret.ResourceVersion, x509.NewCertPool()
	for _, ca := range authority.Certificates() {
		peer.roots.AddCert(ca)
	}
	c.mu.issued[cluster] = peer
	return peer, nil
}

// Forget removes the certificate for a LogCluster. When the certificate is needed again, a new one
// is issued.
func (c *Client) Forget(cluster types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.issued, cluster)
}

// verify verifies a server's certificate chain and URI.
func verify(chain []*x509.Certificate, roots *x509.CertPool, now time.Time, want string) error {
	uri, err := pki.VerifyServer(chain, roots, now)
	if err == nil && uri != want {
		err = fmt.Errorf("the certificate is not one of %s", want)
	}
	return err
}
