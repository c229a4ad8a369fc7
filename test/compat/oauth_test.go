//go:build compat

package compat

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"heartwood.dev/heartwood/test/kit/certs"
	"heartwood.dev/heartwood/test/kit/jwts"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// oauthManifest describes a cluster whose clients authenticate with tokens of the issuer at a URL.
const oauthManifest = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: compat}
spec:
  brokers: 1
  listeners:
  - name: oauth
    port: 9093
    tls: {}
    authentication:
    - {type: OAuthBearer, oauth: {issuer: "https://idp", jwksURL: "%s/keys", audience: kafka,
       ca: {name: idp, key: ca.crt}}}
    maxReauth: 1h
    maxAuthenticationFailures: 1000 # a client may try a refused token many times a second
  authorization: {type: Simple, superUsers: [service, other]}
`

// oauthCases are the kinds of tokens with which each client authenticates.
var oauthCases = []string{"valid", "expired", "audience", "issuer", "forged"}

// identityProvider is an OIDC issuer that serves its keys and tokens.
type identityProvider struct {
	t      *testing.T
	issuer *jwts.Issuer
	forger *jwts.Issuer // issuer with another key that has the same id
	ca     *certs.CA
	keys   *httptest.Server // HTTPS server of the keys
	tokens *httptest.Server // token endpoint of each case: /valid, ...
	dir    string
}

func newIdentityProvider(t *testing.T) *identityProvider {
	p := &identityProvider{t: t, issuer: jwts.New(t, "https://idp", "one"),
		forger: jwts.New(t, "https://idp", "one"), ca: certs.New(t, "idp"), dir: t.TempDir()}
	p.write("keys.json", jwts.JWKS(t, p.issuer))
	p.keys = httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(jwts.JWKS(t, p.issuer)) }))
	p.keys.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{p.ca.Server("idp")}}
	p.keys.StartTLS()
	t.Cleanup(p.keys.Close)
	p.tokens = httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"token_type": "Bearer", "expires_in": 3600,
				"access_token": p.token(path.Base(r.URL.Path), "service")})
		}))
	t.Cleanup(p.tokens.Close)
	return p
}

// token returns the token of a case.
func (p *identityProvider) token(name, subject string) string {
	now, later := time.Now(), time.Now().Add(time.Hour)
	claims := map[string]any{"iat": now.Add(-time.Hour).Unix(), "scope": "all"}
	switch name {
	case "expired": // expired for longer than the allowed clock skew
		return p.issuer.Token(subject, "kafka", now.Add(-10*time.Minute), claims)
	case "audience":
		return p.issuer.Token(subject, "another", later, claims)
	case "issuer":
		claims["iss"] = "https://another"
	case "forged":
		return p.forger.Token(subject, "kafka", later, claims)
	}
	return p.issuer.Token(subject, "kafka", later, claims)
}

// oauthServer is a listener with OAUTHBEARER over TLS, and the file with its CA.
type oauthServer struct{ name, bootstrap, ca string }

// startOAuth starts a broker of this repository.
func (p *identityProvider) startOAuth(t *testing.T) oauthServer {
	t.Helper()
	s := process.NewSetup(t, 1, fmt.Sprintf(oauthManifest, p.keys.URL))
	secret := filepath.Join(s.DataDir, "secrets", "idp")
	if err := os.MkdirAll(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secret, "ca.crt"), p.ca.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	return oauthServer{"heartwood", bootstrap[0], filepath.Join(s.DataDir, "pki", "ca", "ca.crt")}
}

// startOAuthKafka starts a broker of Apache Kafka.
func (p *identityProvider) startOAuthKafka(t *testing.T, java, classes string) oauthServer {
	t.Helper()
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(classes),
		"jose4j-*.jar")); len(found) == 0 {
		t.Skipf("skipped: no jose4j-*.jar in %s, with which Kafka verifies tokens", classes)
	}
	ca := certs.New(t, "ca")
	chain, key := certs.KeyPEM(t, ca.Server("kafka"))
	store := p.write("keystore.pem", append(key, chain...))
	plain, listens := ports.Free(t, 1), ports.Free(t, 1)
	runKafka(t, java, classes, plain, []string{"listeners=OAUTH://" + listens,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OAUTH:SASL_SSL",
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + store, "connections.max.reauth.ms=3600000",
		"listener.name.oauth.sasl.enabled.mechanisms=OAUTHBEARER",
		"listener.name.oauth.oauthbearer.sasl.jaas.config=" + oauthModule + " required;",
		"listener.name.oauth.oauthbearer.sasl.server.callback.handler.class=" +
			"org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
		"listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url=" + p.keysURL(),
		"listener.name.oauth.sasl.oauthbearer.expected.audience=kafka",
		"listener.name.oauth.sasl.oauthbearer.expected.issuer=https://idp"})
	return oauthServer{"Apache Kafka", listens, p.write("ca.crt", ca.PEM())}
}

const oauthModule = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

// TestTokensOfAnIdentityProvider authenticates real clients with tokens of an OIDC issuer, against
// Apache Kafka and against our broker. It checks that both accept and reject the same tokens.
func TestTokensOfAnIdentityProvider(t *testing.T) {
	proof := newRow(t, "OAUTHBEARER", "Java, librdkafka (callback and OIDC), kafka-python, franz-go: "+
		"valid, expired and forged tokens, another audience and issuer; re-authentication as "+
		"another principal; the same outcome as on Apache Kafka")
	java, classes := need(t, "java", "-version"), jars(t)
	python := need(t, "python3", "-c", "import confluent_kafka, kafka.net.sasl.oauth")
	proof.version = toolsVersion(classes)
	p := newIdentityProvider(t)
	// Java reads tokens and keys only from URLs that this property lists.
	t.Setenv("JAVA_TOOL_OPTIONS", "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="+
		strings.Join(p.allowedURLs(), ","))
	onKafka := p.startOAuthKafka(t, java, classes)
	clients := map[string]func(oauthServer, string) string{
		"Java": func(s oauthServer, name string) string { return p.java(java, classes, s, name) },
		"librdkafka": func(s oauthServer, name string) string {
			return p.python(python, "confluent", s, p.token(name, "service"))
		},
		"kafka-python": func(s oauthServer, name string) string {
			return p.python(python, "kafka_python", s, p.token(name, "service"))
		},
		"franz-go": p.franz,
	}
	here := p.startOAuth(t)
	for name, client := range clients {
		for _, label := range oauthCases {
			for _, s := range []oauthServer{onKafka, here} {
				outcome := client(s, label)
				t.Logf("%s, %s, %s: %s", name, label, s.name, outcome)
				if ok := outcome == "ok"; ok != (label == "valid") ||
					!ok && !strings.HasPrefix(outcome, "refused: ") {
					t.Errorf("%s with the token %q on %s: %s", name, label, s.name, outcome)
				}
			}
		}
	}
	servers := []oauthServer{onKafka, here}
	for _, s := range servers {
		if got := p.python(python, "oidc", s, p.tokens.URL+"/valid"); got != "ok" {
			t.Errorf("librdkafka with method oidc on %s: %s", s.name, got)
		}
	}
	p.compareMessages(servers)
}

// write writes a file and returns its path.
func (p *identityProvider) write(name string, content []byte) string {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// keysURL is the URL from which Kafka reads the keys. It uses HTTP, because Kafka's HTTPS client
// cannot be configured with a CA.
func (p *identityProvider) keysURL() string {
	return "file://" + filepath.Join(p.dir, "keys.json")
}

// allowedURLs returns the URLs of the token endpoints, and of the keys that Kafka reads.
func (p *identityProvider) allowedURLs() []string {
	urls := []string{p.keysURL()}
	for _, name := range oauthCases {
		urls = append(urls, p.tokens.URL+"/"+name)
	}
	return urls
}

// java lists the topics with kafka-topics. The tool's login callback requests the token.
func (p *identityProvider) java(java, classes string, s oauthServer, name string) string {
	p.t.Helper()
	config := writeProperties(p.t, p.t.TempDir(), "client.properties",
		"security.protocol=SASL_SSL", "sasl.mechanism=OAUTHBEARER", "ssl.truststore.type=PEM",
		"ssl.truststore.location="+s.ca, "sasl.login.callback.handler.class="+
			"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
		"sasl.oauthbearer.token.endpoint.url="+p.tokens.URL+"/"+name,
		"sasl.jaas.config="+oauthModule+" required clientId=\"compat\" clientSecret=\"secret\";")
	args := append(javaTool(java, classes, "org.apache.kafka.tools.TopicCommand"), "--list",
		"--bootstrap-server", s.bootstrap, "--command-config", config)
	out, err := exec.CommandContext(p.t.Context(), args[0], args[1:]...).CombinedOutput()
	if err == nil {
		return "ok"
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "SaslAuthenticationException") {
			return "refused: " + strings.TrimSpace(line)
		}
	}
	return fmt.Sprintf("%v: %s", err, out)
}

// python runs testdata/oauth.py.
func (p *identityProvider) python(python, library string, s oauthServer, token string) string {
	p.t.Helper()
	var seen struct{ Outcome string }
	out := output(p.t, "", python, "testdata/oauth.py", library, s.bootstrap, s.ca, token)
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	return seen.Outcome
}

func (p *identityProvider) franz(s oauthServer, name string) string {
	p.t.Helper()
	client := p.connect(s, name)
	defer client.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return "refused: " + err.Error()
	}
	return "ok"
}

// connect returns a franz-go client. The client does not retry, so it reports a refusal at once.
func (p *identityProvider) connect(s oauthServer, name string) *kgo.Client {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap), kgo.RetryTimeout(10*time.Second),
		kgo.DialTLSConfig(&tls.Config{RootCAs: poolOf(p.t, s.ca), MinVersion: tls.VersionTLS12}),
		kgo.SASL(oauth.Auth{Token: p.token(name, "service")}.AsMechanism()))
	if err != nil {
		p.t.Fatal(err)
	}
	return client
}

// poolOf returns the CAs in a file.
func poolOf(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(content(t, file)))
	return pool
}

// compareMessages authenticates again on a connection, as KIP-368 permits: with a new token of the
// same principal, with a token of another principal, and with an invalid token. It compares the
// servers' responses.
func (p *identityProvider) compareMessages(servers []oauthServer) {
	p.t.Helper()
	for name, token := range map[string]string{
		"the same principal": p.token("valid", "service"),
		"another principal":  p.token("valid", "other"),
		"an expired token":   p.token("expired", "service"),
	} {
		var answers [2]string
		for i, s := range servers {
			answers[i] = p.again(s, token)
		}
		p.t.Logf("authenticate again with %s: %s", name, answers[0])
		if answers[0] != answers[1] {
			p.t.Errorf("authenticate again with %s: Kafka answers %s, here %s", name, answers[0],
				answers[1])
		}
	}
}

// again authenticates, waits until another authentication is permitted, and authenticates again on
// the same connection. It returns a description of the responses to the second authentication.
func (p *identityProvider) again(s oauthServer, token string) string {
	p.t.Helper()
	client := p.connect(s, "valid")
	defer client.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		p.t.Fatalf("%s: %v", s.name, err)
	}
	time.Sleep(1100 * time.Millisecond) // Kafka's minimum time between two authentications
	// The client sends these requests on the same connection, like any other requests.
	broker := client.SeedBrokers()[0]
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "OAUTHBEARER"
	if _, err := broker.Request(ctx, handshake); err != nil {
		return "no answer to SaslHandshake"
	}
	authenticate := kmsg.NewPtrSASLAuthenticateRequest()
	authenticate.SASLAuthBytes = []byte("n,,\x01auth=Bearer " + token + "\x01\x01")
	text := ""
	for range 2 {
		response, err := broker.Request(ctx, authenticate)
		if err != nil {
			return text + "no answer"
		}
		answer := response.(*kmsg.SASLAuthenticateResponse)
		text += fmt.Sprintf("error %d, %q, session: %t; ", answer.ErrorCode, answer.SASLAuthBytes,
			answer.SessionLifetimeMillis > 0)
		if reason := answer.ErrorMessage; reason != nil && strings.HasPrefix(*reason, "{") {
			text += *reason + "; " // the texts of other refusals differ
		}
		if answer.ErrorCode != 0 || len(answer.SASLAuthBytes) == 0 {
			break
		}
		authenticate.SASLAuthBytes = []byte{1} // confirms the receipt of the refusal (RFC 7628)
	}
	return text
}
