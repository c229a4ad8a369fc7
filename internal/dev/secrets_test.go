package dev

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"heartwood.dev/heartwood/test/kit/certs"
	"heartwood.dev/heartwood/test/kit/jwts"
)

// putSecret writes the file for a key in a Secret.
func putSecret(t *testing.T, opts Options, name, key string, content []byte) {
	t.Helper()
	dir := filepath.Join(opts.DataDir, "secrets", name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// listenerClient returns a client that connects to the only listener. It verifies the broker by the
// CA in the data directory.
func listenerClient(t *testing.T, opts Options, r *running, certificates []tls.Certificate,
	more ...kgo.Opt) *kgo.Client {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(opts.DataDir, "pki", "ca", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	more = append(more, lasting(r.ready["bootstrap"])...)
	client, err := kgo.NewClient(append(more, kgo.DialTLSConfig(&tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS12, Certificates: certificates}))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestKeysOfTokensAreReadByTheGivenCA checks that token keys are read if the certificate of the
// server in jwksURL is from the CA in oauth.ca.
func TestKeysOfTokensAreReadByTheGivenCA(t *testing.T) {
	idp, ca := jwts.New(t, "https://idp", "one"), certs.New(t, "idp")
	jwks := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(jwts.JWKS(t, idp)) }))
	jwks.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{ca.Server("idp")}}
	jwks.StartTLS()
	t.Cleanup(jwks.Close)
	opts := options(t, logCluster(fmt.Sprintf(`listeners: [{name: corp, port: 9093, tls: {},
  authentication: [{type: OAuthBearer, oauth: {issuer: "https://idp", jwksURL: "%s/keys",
  audience: kafka, ca: {name: idp-ca, key: ca.crt}}}]}], brokers: 1`, jwks.URL)))
	if err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(),
		filepath.Join(opts.DataDir, "secrets", "idp-ca", "ca.crt")) {
		t.Fatalf("without the CA: %v", err)
	}
	putSecret(t, opts, "idp-ca", "ca.crt", ca.PEM())
	r := start(t, opts)
	token := func(audience string) kgo.Opt {
		return kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: idp.Token("a", audience, time.Now().Add(time.Hour), nil)}, nil
		}))
	}
	if err := listenerClient(t, opts, r, nil, token("kafka")).Ping(t.Context()); err != nil {
		t.Errorf("a token of the issuer: %v", err)
	}
	if err := listenerClient(t, opts, r, nil, token("other")).Ping(t.Context()); err == nil {
		t.Error("a token for another audience was accepted")
	}
}

// TestClientsHaveCertificatesOfTheGivenCAs checks that certificates from the users CA are not valid
// on a listener with clientCAs.
func TestClientsHaveCertificatesOfTheGivenCAs(t *testing.T) {
	corp := certs.New(t, "corp")
	opts := options(t, logCluster(`listeners: [{name: mtls, port: 9093, tls: {},
  authentication: [{type: TLS, clientCAs: [{name: corp, key: root.crt}]}]}],
  authorization: {type: Simple, superUsers: ["CN=orders"]}, brokers: 1`),
		topic("orders", "partitions: 1"), logUser("orders", "authentication: {type: TLS}"))
	putSecret(t, opts, "corp", "root.crt", corp.PEM())
	r := start(t, opts)
	client := listenerClient(t, opts, r,
		[]tls.Certificate{corp.Client(pkix.Name{CommonName: "orders"})})
	if err := produceOne(t.Context(), client, "orders"); err != nil {
		t.Errorf("a certificate of the given CA: %v", err)
	}
	certificate, err := tls.X509KeyPair([]byte(userFile(t, opts, "orders", "user.crt")),
		[]byte(userFile(t, opts, "orders", "user.key")))
	if err != nil {
		t.Fatal(err)
	}
	if err := listenerClient(t, opts, r,
		[]tls.Certificate{certificate}).Ping(t.Context()); err == nil {
		t.Error("a certificate of the users CA was accepted")
	}
}

// TestRemovedCAIsDeleted checks that the file of a removed CA is deleted, because a broker's
// process reads all files in its directory.
func TestRemovedCAIsDeleted(t *testing.T) {
	const spec = `listeners: [{name: mtls, port: 9093, tls: {}, authentication: [{type: TLS%s}]}],
  brokers: 1`
	opts := options(t, logCluster(fmt.Sprintf(spec, ", clientCAs: [{name: corp, key: root.crt}]")))
	putSecret(t, opts, "corp", "root.crt", certs.New(t, "corp").PEM())
	start(t, opts).stop()
	file := filepath.Join(opts.DataDir, "pki", "brokers", "0", "listener.mtls.client-ca.crt")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	put(t, opts, "all.yaml", logCluster(fmt.Sprintf(spec, "")))
	start(t, opts).stop()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the CA of a field that was removed remains: %v", err)
	}
}
