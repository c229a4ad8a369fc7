package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
)

// Dial opens a connection to an address, such as to the pod of a broker.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Token returns the token of a ServiceAccount for one request.
type Token func(ctx context.Context) (string, error)

// Access configures the connections of a client to the HTTP ports of brokers. The zero value
// connects directly and without TLS.
type Access struct {
	Dial Dial // nil: connects directly
	// CA returns the CA of the brokers (PEM), by which the client verifies them; nil: without TLS.
	// It is called for each connection.
	CA func() ([]byte, error)
	// Token is sent with each request, with TLS only; may be nil.
	Token Token
}

// NewClientWith returns a client.
func NewClientWith(access Access) *Client {
	transport := &http.Transport{DialContext: access.Dial}
	client := &Client{tls: access.CA != nil}
	if client.tls {
		client.token = access.Token
		transport.TLSClientConfig = brokerTLS(func() (*x509.CertPool, error) {
			ca, err := access.CA()
			if err != nil {
				return nil, err
			}
			return poolOf(ca)
		})
	}
	client.http = http.Client{Transport: transport, CheckRedirect: noRedirect}
	return client
}

// NewClientThrough returns a client whose connections dial opens. If ca is not nil, it connects
// with TLS, verifies brokers by these certificates (PEM), and sends the token of a ServiceAccount.
func NewClientThrough(dial Dial, ca []byte, token string) (*Client, error) {
	access := Access{Dial: dial}
	if ca != nil {
		if _, err := poolOf(ca); err != nil {
			return nil, err
		}
		access.CA = func() ([]byte, error) { return ca, nil }
		access.Token = func(context.Context) (string, error) { return token, nil }
	}
	return NewClientWith(access), nil
}

func poolOf(ca []byte) (*x509.CertPool, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("read the CA of the brokers: it contains no certificate")
	}
	return roots, nil
}

// Get requests a path from the HTTP port of a broker and decodes the response, which is JSON. It
// fails with a *Refused if the broker responds with an error.
func (c *Client) Get(ctx context.Context, address, path string, into any) error {
	return c.do(ctx, http.MethodGet, address, path, into)
}

// Text requests a path from the HTTP port of a broker and returns the response, such as /metrics.
func (c *Client) Text(ctx context.Context, address, path string) (text []byte, err error) {
	err = c.do(ctx, http.MethodGet, address, path, &text)
	return text, err
}

func noRedirect(*http.Request, []*http.Request) error {
	return errors.New("brokers do not redirect")
}
