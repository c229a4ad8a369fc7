// Package connect chooses a listener of a LogCluster that accepts given credentials, and connects
// Kafka clients to it.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/tlsconfig"
	"heartwood.dev/heartwood/internal/tokens"
)

// Credentials are a Kafka client's credentials. The zero value contains none.
type Credentials struct {
	// User contains the data of a LogUser's Secret, by key (package credentials); may be nil.
	User map[string][]byte
	// Token returns a ServiceAccount's token with the LogCluster's audience; may be nil.
	Token func(ctx context.Context) (string, error)
}

// Choose returns the listener with the given name or, if name is "", the first listener that
// accepts the credentials. If no listener accepts them, it returns the first listener without
// authentication, where the client has only the ACLs of ANONYMOUS.
func (c Credentials) Choose(listeners []v1alpha1.Listener, name string) (*v1alpha1.Listener,
	error) {
	if name != "" {
		index := slices.IndexFunc(listeners,
			func(listener v1alpha1.Listener) bool { return listener.Name == name })
		switch {
		case index < 0:
			return nil, fmt.Errorf("the LogCluster has no listener %s", name)
		case len(listeners[index].Authentication) > 0 && c.Accepted(&listeners[index]) == "":
			return nil, fmt.Errorf("listener %s does not accept these credentials", name)
		}
		return &listeners[index], nil
	}
	if listener := c.First(listeners); listener != nil {
		return listener, nil
	}
	for i := range listeners {
		if len(listeners[i].Authentication) == 0 {
			return &listeners[i], nil
		}
	}
	return nil, errors.New("no listener of the LogCluster accepts these credentials")
}

// First returns the first listener that accepts the credentials, or nil if there is none.
func (c Credentials) First(listeners []v1alpha1.Listener) *v1alpha1.Listener {
	for i := range listeners {
		if c.Accepted(&listeners[i]) != "" {
			return &listeners[i]
		}
	}
	return nil
}

// Accepted returns the authentication type with which a listener accepts the credentials. It
// returns "" if the listener does not accept them or has no authentication.
func (c Credentials) Accepted(listener *v1alpha1.Listener) v1alpha1.AuthenticationType {
	for _, way := range listener.Authentication {
		switch way.Type {
		case v1alpha1.AuthenticationScramSha256, v1alpha1.AuthenticationScramSha512:
			if len(c.User[credentials.KeyPassword]) > 0 {
				return way.Type
			}
		case v1alpha1.AuthenticationTLS:
			if len(c.User[credentials.KeyKey]) > 0 {
				return way.Type
			}
		case v1alpha1.AuthenticationOAuthBearer:
			if c.Token != nil && way.OAuth != nil && way.OAuth.ServiceAccounts {
				return way.Type
			}
		}
	}
	return ""
}

// SASL returns the SASL mechanism for an authentication type, or nil if the type does not use SASL.
func (c Credentials) SASL(how v1alpha1.AuthenticationType) sasl.Mechanism {
	switch how {
	case v1alpha1.AuthenticationScramSha256:
		return c.password().AsSha256Mechanism()
	case v1alpha1.AuthenticationScramSha512:
		return c.password().AsSha512Mechanism()
	case v1alpha1.AuthenticationOAuthBearer:
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := c.Token(ctx)
			return oauth.Auth{Token: token}, err
		})
	}
	return nil
}

// password returns the user's name and password.
func (c Credentials) password() scram.Auth {
	return scram.Auth{User: string(c.User[credentials.KeyUserName]),
		Pass: string(c.User[credentials.KeyPassword])}
}

// TLS returns the TLS configuration for connections to a listener. Brokers are verified with the CA
// in the user's Secret; if there is none, with ca (PEM); and if ca is empty, with the public CAs.
func (c Credentials) TLS(ca []byte) (*tls.Config, error) {
	config := tlsconfig.New()
	config.RootCAs = tokens.PublicRoots()
	if own := c.User[credentials.KeyCA]; len(own) > 0 {
		ca = own
	}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("read the CA of the listener: it contains no certificate")
		}
	}
	if len(c.User[credentials.KeyKey]) > 0 {
		pair, err := tls.X509KeyPair(c.User[credentials.KeyCertificate], c.User[credentials.KeyKey])
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the LogUser: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Options returns the options for connections to a listener. If config is not nil, connections use
// TLS; config is called for each connection. own returns the credentials; it is called for each
// authentication, so that changed credentials take effect.
func Options(config func(context.Context) (*tls.Config, error), how v1alpha1.AuthenticationType,
	own func(context.Context) (Credentials, error)) (options []kgo.Opt) {
	if config != nil {
		options = append(options, kgo.Dialer(dialTLS(config)))
	}
	password := func(ctx context.Context) (scram.Auth, error) {
		credentials, err := own(ctx)
		return credentials.password(), err
	}
	switch how {
	case v1alpha1.AuthenticationScramSha256:
		options = append(options, kgo.SASL(scram.Sha256(password)))
	case v1alpha1.AuthenticationScramSha512:
		options = append(options, kgo.SASL(scram.Sha512(password)))
	case v1alpha1.AuthenticationOAuthBearer:
		options = append(options, kgo.SASL(oauth.Oauth(func(ctx context.Context) (auth oauth.Auth,
			err error) {
			token, err := own(ctx)
			if err == nil {
				auth.Token, err = token.Token(ctx)
			}
			return auth, err
		})))
	}
	return options
}

// BrokerIDs returns the ids of the brokers that are running or are supposed to run.
func BrokerIDs(cluster *v1alpha1.LogCluster) []int32 {
	ids := map[int32]bool{}
	for id := range cluster.Spec.Brokers {
		ids[id] = true
	}
	for _, broker := range cluster.Status.Brokers {
		ids[broker.ID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// dialTimeout limits the time to establish one connection, including the TLS handshake.
const dialTimeout = 3 * time.Second

// dialTLS returns a function that connects with TLS. The function calls config for each connection,
// so that a changed CA or certificate takes effect.
func dialTLS(config func(context.Context) (*tls.Config, error)) func(context.Context, string,
	string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		settings, err := config(ctx)
		if err != nil {
			return nil, err
		}
		dialer := tls.Dialer{Config: settings} // the server name is taken from the address
		return dialer.DialContext(ctx, network, address)
	}
}
