package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/access"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/tokens"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/certs"
	"heartwood.dev/heartwood/test/kit/jwts"
)

// securedHTTP is the HTTP port of a broker with certificates. A function stands in for the API
// server: it grants only one right, the right to clean to account cleaner.
type securedHTTP struct {
	t            *testing.T
	ca           *certs.CA
	server       *httptest.Server
	certificates *Certificates
	issuer       *jwts.Issuer
	cleaned      []string
}

const cleanerAccount = "system:serviceaccount:ns:cleaner"

func newSecuredHTTP(t *testing.T) *securedHTTP {
	s := &securedHTTP{t: t, ca: certs.New(t, "peers"), certificates: NewCertificates(),
		issuer: jwts.New(t, "https://api", "one")}
	source := tokens.New(tokens.Options{Name: "test",
		Accept: sasl.Issuer{Audience: v1alpha1.ServiceAccountAudience("ns", "demo")},
		Read: func(context.Context) (tokens.Found, error) {
			return tokens.Found{Issuer: "https://api", JWKS: jwts.JWKS(t, s.issuer)}, nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); source.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	gate := access.New(access.Options{MetricsOpen: true, Peer: HTTPPeer("ns", "demo"),
		Tokens: source,
		Review: func(_ context.Context, user string, right access.Right) (bool, error) {
			return user == cleanerAccount && right == access.CleanTopics, nil
		}})
	s.server = httptest.NewUnstartedServer(httpport.New(httpport.Options{Gate: gate,
		Gatherer: prometheus.NewRegistry(), Partitions: func() []report.Partition { return nil },
		Ready: func() error { return errors.New("secret detail") },
		CleanNow: func(topic string, _ []int32) (report.CleanRequests, error) {
			s.cleaned = append(s.cleaned, topic)
			return report.CleanRequests{}, nil
		}}))
	s.server.Listener = tls.NewListener(s.server.Listener, s.certificates.HTTPServer())
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}

// leaf returns a certificate that contains the given URI, issued by the CA.
func leaf(t *testing.T, ca *certs.CA, uri string) tls.Certificate {
	t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return ca.Leaf(&x509.Certificate{URIs: []*url.URL{parsed}, ExtKeyUsage: []x509.ExtKeyUsage{
		x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
}

// load gives the broker new certificates from the CA.
func (s *securedHTTP) load(ca *certs.CA) {
	s.t.Helper()
	data := map[string][]byte{v1alpha1.KeyPeerCA: ca.PEM()}
	certificate, key := v1alpha1.PeerCertificateKeys(0)
	data[certificate], data[key] = certs.KeyPEM(s.t, leaf(s.t, ca,
		v1alpha1.PeerURI("ns", "demo", 0)))
	if err := s.certificates.Update(data, nil, 0); err != nil {
		s.t.Fatal(err)
	}
}

// send sends a request on a new connection.
func (s *securedHTTP) send(method, path, token string,
	certificates ...tls.Certificate) (status int, body string, err error) {
	s.t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	if len(certificates) > 0 { // sent even if its CA is not in the server's list
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificates[0], nil
		}
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}
	address := "https://" + s.server.Listener.Addr().String()
	request, err := http.NewRequestWithContext(s.t.Context(), method, address+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: trioWait}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// TestSecuredHTTPPort checks that probes and open metrics need neither a certificate nor a token.
// All other requests need a certificate of a broker or the operator, or a token with the required
// right.
func TestSecuredHTTPPort(t *testing.T) {
	s := newSecuredHTTP(t)
	if _, _, err := s.send("GET", "/healthz", ""); err == nil {
		t.Error("a broker without certificates has served a request")
	}
	s.load(s.ca)
	const clean, audience = "/api/v1/topics/orders/clean", "heartwood/ns/demo"
	later := time.Now().Add(time.Hour)
	token := s.issuer.Token(cleanerAccount, audience, later, nil)
	await.Until(t, "the keys are read, and the right token is accepted", func() bool {
		status, _, _ := s.send("POST", clean, token)
		return status == http.StatusAccepted
	})
	s.cleaned = nil
	other := jwts.New(t, "https://api", "one")
	operator := leaf(t, s.ca, v1alpha1.OperatorURI("ns", "demo"))
	broker := leaf(t, s.ca, v1alpha1.PeerURI("ns", "demo", 7))
	for _, c := range []struct {
		name, method, path, token string
		certificates              []tls.Certificate
		status                    int
	}{
		{"probe", "GET", "/healthz", "", nil, 200},
		{"open metrics", "GET", "/metrics", "", nil, 200},
		{"nobody", "GET", "/api/v1/partitions", "", nil, 401},
		{"nobody", "POST", clean, "", nil, 401},
		{"no right", "GET", "/api/v1/partitions", token, nil, 403},
		{"other account", "POST", clean,
			s.issuer.Token("system:serviceaccount:ns:app", audience, later, nil), nil, 403},
		{"other audience", "POST", clean,
			s.issuer.Token(cleanerAccount, "heartwood/ns/other", later, nil), nil, 401},
		{"expired", "POST", clean,
			s.issuer.Token(cleanerAccount, audience, time.Now().Add(-time.Hour), nil), nil, 401},
		{"other key", "POST", clean, other.Token(cleanerAccount, audience, later, nil), nil, 401},
		{"operator", "GET", "/api/v1/partitions", "", []tls.Certificate{operator}, 200},
		{"broker", "POST", clean, "", []tls.Certificate{broker}, 202},
		{"broker of another cluster", "POST", clean, "", []tls.Certificate{leaf(t, s.ca,
			v1alpha1.PeerURI("ns", "other", 0))}, 401},
	} {
		status, body, err := s.send(c.method, c.path, c.token, c.certificates...)
		if err != nil || status != c.status {
			t.Errorf("%s: %s %s: got %d %s, %v, want %d", c.name, c.method, c.path, status, body, err,
				c.status)
		}
	}
	if len(s.cleaned) != 1 {
		t.Errorf("cleaned %v, want once by the broker", s.cleaned)
	}
	// With a certificate from another CA, the handshake fails, so there is no response.
	if status, body, err := s.send("GET", "/healthz", "", leaf(t, certs.New(t, "others"),
		v1alpha1.OperatorURI("ns", "demo"))); err == nil {
		t.Errorf("a certificate of another CA: got %d %s", status, body)
	}
	// After the CA has changed, certificates from the old CA are rejected.
	s.load(certs.New(t, "next"))
	if status, body, err := s.send("GET", "/healthz", "", operator); err == nil {
		t.Errorf("a certificate of an earlier CA: got %d %s", status, body)
	}
}

func TestReadinessHasNoDetailForEveryone(t *testing.T) {
	s := newSecuredHTTP(t)
	s.load(s.ca)
	status, body, err := s.send("GET", "/readyz", "")
	if err != nil || status != http.StatusServiceUnavailable || strings.Contains(body, "secret") {
		t.Errorf("got %d %s, %v", status, body, err)
	}
	var failure report.Failure
	if json.Unmarshal([]byte(body), &failure) != nil || failure.Reason != "NotReady" {
		t.Errorf("got %s", body)
	}
}
