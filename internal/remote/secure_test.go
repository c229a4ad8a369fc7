package remote

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/test/kit/certs"
)

// brokerCertificate returns a certificate that contains the URI.
func brokerCertificate(t *testing.T, ca *certs.CA, uri string) tls.Certificate {
	t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return ca.Leaf(&x509.Certificate{URIs: []*url.URL{parsed}, ExtKeyUsage: []x509.ExtKeyUsage{
		x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
}

// secureBroker serves with TLS. It responds with the client's token and certificate.
func secureBroker(t *testing.T, ca *certs.CA, uri string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			name := ""
			if len(r.TLS.PeerCertificates) > 0 {
				name = r.TLS.PeerCertificates[0].URIs[0].String()
			}
			_, _ = w.Write([]byte(`{"topics":[{"topic":"` + r.Header.Get("Authorization") + " " +
				name + `"}]}`))
		}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientCAs: ca.Pool(),
		Certificates: []tls.Certificate{brokerCertificate(t, ca, uri)},
		ClientAuth:   tls.VerifyClientCertIfGiven}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func writeFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestClientOfASecuredCluster checks that a token is sent to brokers, but not to other servers.
func TestClientOfASecuredCluster(t *testing.T) {
	dir, ca := t.TempDir(), certs.New(t, "peers")
	security := Security{CAFile: writeFile(t, dir, "ca.crt", ca.PEM()),
		TokenFile: writeFile(t, dir, "token", []byte("abc.def\n"))}
	client, err := NewClient(security)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(address string) (string, error) {
		topics, err := client.Topics(t.Context(), []string{address}, nil)
		if err != nil {
			return "", err
		}
		return topics.Topics[0].Topic, nil
	}
	answer, err := ask(secureBroker(t, ca, v1alpha1.PeerURI("ns", "demo", 1)))
	if err != nil || answer != "Bearer abc.def " {
		t.Errorf("got %q, %v", answer, err)
	}
	for name, address := range map[string]string{
		"other CA":         secureBroker(t, certs.New(t, "x"), v1alpha1.PeerURI("ns", "demo", 1)),
		"not a broker":     secureBroker(t, ca, v1alpha1.OperatorURI("ns", "demo")),
		"not a broker URI": secureBroker(t, ca, "https://ns/demo/broker/1"),
		"plain": servePlain(t, func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("a token was sent without TLS: %v", r.Header)
		}),
	} {
		if answer, err := ask(address); err == nil {
			t.Errorf("%s: got %q", name, answer)
		}
	}
	// A broker's pod contains certificates.
	certificateKey, key := v1alpha1.PeerCertificateKeys(2)
	chain, private := certs.KeyPEM(t, brokerCertificate(t, ca, v1alpha1.PeerURI("ns", "demo", 2)))
	writeFile(t, dir, certificateKey, chain)
	writeFile(t, dir, key, private)
	writeFile(t, dir, v1alpha1.KeyPeerCA, ca.PEM())
	if client, err = NewClient(Security{Certificates: dir, Broker: 2}); err != nil {
		t.Fatal(err)
	}
	answer, err = ask(secureBroker(t, ca, v1alpha1.PeerURI("ns", "demo", 1)))
	if err != nil || answer != " heartwood://ns/demo/broker/2" {
		t.Errorf("got %q, %v", answer, err)
	}
}

func servePlain(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	return serveHandler(t, handler, "127.0.0.1:0")
}

func TestTokenIsNotSentWithoutTLS(t *testing.T) {
	token := writeFile(t, t.TempDir(), "token", []byte("abc"))
	if _, err := NewClient(Security{TokenFile: token}); err == nil ||
		!strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("got %v", err)
	}
}

func TestInvalidSecurityFiles(t *testing.T) {
	dir := t.TempDir()
	ca := writeFile(t, dir, "ca.crt", certs.New(t, "ca").PEM())
	for name, s := range map[string]Security{
		"no CA":         {CAFile: dir + "/missing"},
		"not a CA":      {CAFile: writeFile(t, dir, "bad", []byte("x"))},
		"no token":      {CAFile: ca, TokenFile: dir + "/missing"},
		"empty token":   {CAFile: ca, TokenFile: writeFile(t, dir, "empty", []byte("\n"))},
		"two tokens":    {CAFile: ca, TokenFile: writeFile(t, dir, "two", []byte("a\nb"))},
		"no broker":     {Certificates: dir, Broker: 9},
		"no directory ": {Certificates: dir + "/missing"},
	} {
		if _, err := NewClient(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPlainClientOfASecuredBrokerGetsAHint checks that the error for a request without TLS contains
// a hint. The server responds to such a request in plain text.
func TestPlainClientOfASecuredBrokerGetsAHint(t *testing.T) {
	address := secureBroker(t, certs.New(t, "peers"), v1alpha1.PeerURI("ns", "demo", 1))
	_, err := (&Client{}).Topics(t.Context(), []string{address}, nil)
	if err == nil || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("got %v", err)
	}
}
