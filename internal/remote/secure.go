package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pki"
	"heartwood.dev/heartwood/internal/tlsconfig"
)

// Security configures a client's connections to the brokers of a secured LogCluster. The zero value
// connects without TLS.
type Security struct {
	// CAFile is the path of a file with the peer CA (key peer-ca.crt in Secret CLUSTER-ca-cert).
	// TokenFile is the path of a file with a ServiceAccount's token.
	CAFile, TokenFile string
	// Certificates is a directory with broker certificates, as mounted in a broker's pod. The client
	// then authenticates as the broker whose id is Broker. CAFile takes precedence over Certificates.
	Certificates string
	Broker       int32
}

// tokenBytesMax limits the size of a token file.
const tokenBytesMax = 64 << 10

// NewClient returns a client.
func NewClient(s Security) (*Client, error) {
	switch {
	case s.CAFile == "" && s.TokenFile != "":
		return nil, errors.New("a token is sent with TLS only: give --ca-file as well")
	case s.CAFile == "" && s.Certificates == "":
		return &Client{}, nil
	}
	client := &Client{tls: true}
	var certificates []tls.Certificate
	if s.CAFile == "" {
		certificate, key := v1alpha1.PeerCertificateKeys(s.Broker)
		pair, err := tls.LoadX509KeyPair(filepath.Join(s.Certificates, certificate),
			filepath.Join(s.Certificates, key))
		if err != nil {
			return nil, fmt.Errorf("read the certificate of broker %d: %w", s.Broker, err)
		}
		certificates = []tls.Certificate{pair}
	}
	roots, err := readRoots(cmp.Or(s.CAFile, filepath.Join(s.Certificates, v1alpha1.KeyPeerCA)))
	if err != nil {
		return nil, err
	}
	if s.TokenFile != "" {
		if _, err := readToken(s.TokenFile); err != nil {
			return nil, err
		}
		// Read the file for each request, because Kubernetes replaces the token in a mounted file before
		// it expires.
		client.token = func(context.Context) (string, error) { return readToken(s.TokenFile) }
	}
	config := brokerTLS(func() (*x509.CertPool, error) { return roots, nil })
	config.Certificates = certificates
	client.http = http.Client{CheckRedirect: noRedirect,
		Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: false}}
	return client, nil
}

// brokerTLS returns the TLS configuration for connections to brokers. Function roots returns the
// brokers' CAs; it is called for each connection.
func brokerTLS(roots func() (*x509.CertPool, error)) *tls.Config {
	return tlsconfig.VerifyBy(func(state tls.ConnectionState) error {
		trusted, err := roots()
		if err != nil {
			return err
		}
		return verifyBroker(state.PeerCertificates, trusted)
	})
}

func readRoots(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("read the CA: %s contains no certificate", path)
	}
	return roots, nil
}

func readToken(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || len(content) > tokenBytesMax || strings.ContainsAny(token, " \r\n\t") {
		return "", fmt.Errorf("read the token: %s does not contain one token", path)
	}
	return token, nil
}

// verifyBroker verifies a server's certificate chain, and checks that it is the certificate of a
// broker. The peer CA belongs to one LogCluster, so host names do not have to be compared. Brokers
// are also reached by addresses that their certificates cannot contain, such as the address of a
// forwarded port.
func verifyBroker(chain []*x509.Certificate, roots *x509.CertPool) error {
	uri, err := pki.VerifyServer(chain, roots, time.Now())
	if err == nil && !brokerURI(uri) {
		err = errors.New("the certificate is not one of a broker")
	}
	return err
}

// brokerURI reports whether a URI is v1alpha1.PeerURI of any broker.
func brokerURI(uri string) bool {
	parts := strings.Split(strings.TrimPrefix(uri, "heartwood://"), "/")
	if len(parts) != 4 {
		return false
	}
	id, err := strconv.ParseInt(parts[3], 10, 32)
	return err == nil && uri == v1alpha1.PeerURI(parts[0], parts[1], int32(id))
}
