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

// NewClientThrough returns a client whose connections dial opens. If ca is not nil, it connects
// with TLS, verifies brokers by these certificates (PEM), and sends the token of a ServiceAccount.
func NewClientThrough(dial Dial, ca []byte, token string) (*Client, error) {
	transport := &http.Transport{DialContext: dial}
	client := &Client{token: token, tls: ca != nil}
	if client.tls {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(ca) {
			return nil, errors.New("read the CA of the brokers: it contains no certificate")
		}
		transport.TLSClientConfig = brokerTLS(roots)
	}
	client.http = http.Client{Transport: transport, CheckRedirect: noRedirect}
	return client, nil
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
