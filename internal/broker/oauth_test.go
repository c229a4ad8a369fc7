package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/local"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/tokens"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/certs"
	"heartwood.dev/heartwood/test/kit/jwts"
)

// tokenCluster is a broker with two listeners. Listener idp accepts tokens from an identity
// provider, and listener accounts accepts ServiceAccount tokens.
type tokenCluster struct {
	t           *testing.T
	ca          *certs.CA
	idp, api    *jwts.Issuer
	unavailable atomic.Bool // true: the identity provider responds with errors
	broker      *Broker
}

const account = "system:serviceaccount:ns:orders"

func newTokenCluster(t *testing.T) *tokenCluster {
	c := &tokenCluster{t: t, ca: certs.New(t, "ca"), idp: jwts.New(t, "https://idp", "one"),
		api: jwts.New(t, "https://api", "one")}
	jwks := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			if c.unavailable.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write(jwts.JWKS(t, c.idp))
		}))
	idpCA := certs.New(t, "idp")
	jwks.TLS = &tls.Config{MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{idpCA.Server("idp")}}
	jwks.StartTLS()
	t.Cleanup(jwks.Close)
	accounts := tokens.New(tokens.Options{
		Accept: sasl.Issuer{Audience: v1alpha1.ServiceAccountAudience("ns", "demo")},
		Read: func(context.Context) (tokens.Found, error) {
			return tokens.Found{Issuer: "https://api", JWKS: jwts.JWKS(t, c.api)}, nil
		}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); accounts.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	listeners := map[string]*v1alpha1.OAuth{"accounts": {ServiceAccounts: true},
		"idp": {Issuer: "https://idp", Audience: "kafka", JWKSURL: jwks.URL + "/keys",
			PrincipalClaim: "team"}}
	data := map[string][]byte{v1alpha1.ListenerOAuthCAKey("idp"): idpCA.PEM()}
	options := Options{DataDir: t.TempDir(), PeerListen: "127.0.0.1:0", PeerHost: "127.0.0.1",
		Namespace: "ns", Cluster: "demo", Certificates: NewCertificates(),
		ServiceAccounts: accounts, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, name := range []string{"idp", "accounts"} {
		certificate, key := v1alpha1.ListenerCertificateKeys(name)
		data[certificate], data[key] = certs.KeyPEM(t, c.ca.Server("broker"))
		options.Listeners = append(options.Listeners, Listener{Name: name,
			Listen: "127.0.0.1:0", TLS: true,
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationOAuthBearer,
				OAuth: listeners[name]}}})
	}
	if err := options.Certificates.Update(data, []string{"idp", "accounts"}, 0); err != nil {
		t.Fatal(err)
	}
	c.run(options)
	return c
}

// run runs the broker. Its super users are team admins and the ServiceAccount account.
func (c *tokenCluster) run(options Options) {
	c.t.Helper()
	store, err := local.Open(vfs.OS{}, c.t.TempDir()+"/metadata.json")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(store.Close)
	cluster := &v1alpha1.LogCluster{}
	cluster.Name, cluster.Spec.Brokers = "demo", 1
	cluster.Spec.Authorization = &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple,
		SuperUsers: []string{"admins", account}}
	if err := store.Sync(cluster, 1, nil); err != nil {
		c.t.Fatal(err)
	}
	options.Metadata = local.Session{Store: store}
	if c.broker, err = New(options); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.broker.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
	})
	limited, stop := context.WithTimeout(c.t.Context(), trioWait)
	defer stop()
	if err := store.AwaitBrokers(limited, 1); err != nil {
		c.t.Fatal(err)
	}
}

// client returns a client that connects to a listener with a token.
func (c *tokenCluster) client(listener int, token string) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.listeners[listener].endpoint.String()),
		kgo.SASL(oauth.Auth{Token: token}.AsMechanism()), kgo.RetryTimeout(trioWait),
		kgo.DialTLSConfig(&tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// TestTokensAuthenticate checks that the principal is the configured claim in an identity
// provider's token, or the name of a ServiceAccount, and that a client may connect before the
// broker has read the issuer's keys.
func TestTokensAuthenticate(t *testing.T) {
	c := newTokenCluster(t)
	later := time.Now().Add(time.Hour)
	for listener, token := range []string{
		c.idp.Token("somebody", "kafka", later, map[string]any{"team": "admins"}),
		c.api.Token(account, "heartwood/ns/demo", later, nil),
	} {
		admin := kadm.NewClient(c.client(listener, token))
		name := []string{"idp", "accounts"}[listener]
		if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
			t.Errorf("listener %s: create a topic as super user: %v", name, err)
		}
	}
	other := kadm.NewClient(c.client(0, c.idp.Token("admins", "kafka", later,
		map[string]any{"team": "others"})))
	if _, err := other.CreateTopic(t.Context(), 1, 1, nil, "others"); !errors.Is(err,
		kerr.TopicAuthorizationFailed) {
		t.Errorf("another team has created a topic: %v", err)
	}
}

// TestTrap9TokensOfOthersAreRefused checks that the response is the same for tokens for another
// listener, from another issuer or for another audience, for expired tokens, and for a token with
// an unknown key id.
func TestTrap9TokensOfOthersAreRefused(t *testing.T) {
	c := newTokenCluster(t)
	later := time.Now().Add(time.Hour)
	team := map[string]any{"team": "admins"}
	good := c.idp.Token("a", "kafka", later, team)
	if err := c.client(0, good).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	forged, renamed := jwts.New(t, "https://idp", "one"), jwts.New(t, "https://idp", "two")
	for name, token := range map[string]string{
		"other listener": c.api.Token(account, "heartwood/ns/demo", later, team),
		"other audience": c.idp.Token("a", "heartwood/ns/demo", later, team),
		"other key":      forged.Token("a", "kafka", later, team),
		"unknown key":    renamed.Token("a", "kafka", later, team),
		"expired":        c.idp.Token("a", "kafka", time.Now().Add(-time.Minute), team),
		"no expiry": c.idp.Token("a", "kafka", later, map[string]any{"team": "admins",
			"exp": nil}),
		"no principal": c.idp.Token("a", "kafka", later, nil),
		"none":         strings.Split(good, ".")[0] + "." + strings.Split(good, ".")[1] + ".AAAA",
	} {
		// error of the client after the response {"status":"invalid_token"}
		if err := c.client(0, token).Ping(t.Context()); err == nil || !strings.Contains(err.Error(),
			"unexpected data in oauth response") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	c.unavailable.Store(true)
	if err := c.client(0, good).Ping(t.Context()); err != nil {
		t.Errorf("while the identity provider is unavailable: %v", err)
	}
}

// TestTrap7SessionEndsWithItsToken checks that a session ends when its token expires, and that a
// client with a new token reauthenticates on the same connection (KIP-368).
func TestTrap7SessionEndsWithItsToken(t *testing.T) {
	c := newTokenCluster(t)
	var identities atomic.Int64
	connections := &connectionCount{}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.broker.listeners[0].endpoint.String()),
		kgo.SASL(oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			identities.Add(1)
			// The broker accepts a token for 30 s after its expiry, so the session lasts for 3 s.
			return oauth.Auth{Token: c.idp.Token("a", "kafka", time.Now().Add(-27*time.Second),
				map[string]any{"team": "admins"})}, nil
		})), kgo.WithHooks(connections),
		kgo.DialTLSConfig(&tls.Config{RootCAs: c.ca.Pool(), MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// On a busy machine, a client may reauthenticate too late; it then opens a new connection.
	await.Until(t, "the client authenticates again on the same connection", func() bool {
		if err := client.Ping(t.Context()); err != nil {
			t.Log(err)
		}
		return identities.Load() >= connections.Load()+2
	})
}

// connectionCount counts the connections that a client opens.
type connectionCount struct{ atomic.Int64 }

func (c *connectionCount) OnBrokerConnect(kgo.BrokerMetadata, time.Duration, net.Conn, error) {
	c.Add(1)
}

func TestTokensOfServiceAccountsNeedKubernetes(t *testing.T) {
	store, err := local.Open(vfs.NewMem(), "metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{DataDir: t.TempDir(), Metadata: local.Session{Store: store},
		Certificates: NewCertificates(), PeerListen: "127.0.0.1:0",
		Listeners: []Listener{{Name: "sa", Listen: "127.0.0.1:0", TLS: true,
			Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationOAuthBearer,
				OAuth: &v1alpha1.OAuth{ServiceAccounts: true}}}}}})
	if !errors.Is(err, errOnlyKubernetes) {
		t.Errorf("got %v", err)
	}
}
