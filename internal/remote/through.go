package remote

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
)

// Dial opens a connection to an address, for example to a broker's pod.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Token returns a ServiceAccount's token for one request.
type Token func(ctx context.Context) (string, error)

// Access configures a client's connections to brokers' HTTP ports. The zero value connects directly
// and without TLS.
type Access struct {
	Dial Dial // nil: connects directly
	// CA returns the CA with which the client verifies brokers (PEM); nil: no TLS. It is called for
	// each connection.
	CA func() ([]byte, error)
	// Token returns the token to send with each request. It is used only with TLS; may be nil.
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

// NewClientThrough returns a client that opens its connections with dial. If ca is not nil, the
// client uses TLS, verifies brokers with the CA certificates in ca (PEM), and sends the token of a
// ServiceAccount.
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

// Get requests a path from a broker's HTTP port and decodes the JSON response. It fails with a
// *Refused if the broker responds with an error.
func (c *Client) Get(ctx context.Context, address, path string, into any) error {
	return c.do(ctx, http.MethodGet, address, path, into)
}

// Text requests a path, such as /metrics, from a broker's HTTP port and returns the response as
// text.
func (c *Client) Text(ctx context.Context, address, path string) (text []byte, err error) {
	err = c.do(ctx, http.MethodGet, address, path, &text)
	return text, err
}

func noRedirect(*http.Request, []*http.Request) error {
	return errors.New("brokers do not redirect")
}
