package broker

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/tokens"
)

// errOnlyKubernetes means that a listener that accepts ServiceAccount tokens is configured outside
// Kubernetes.
var errOnlyKubernetes = errors.New("oauth.serviceAccounts needs the API server of Kubernetes, " +
	"which has the keys of the tokens: set issuer, jwksURL and audience instead")

// tokens returns a verifier for the listener's tokens, or nil if the listener does not use
// OAuthBearer. While Run runs, the verifier reads the issuer's keys.
func (b *Broker) tokens(l *Listener) (sasl.TokenVerifier, error) {
	for i := range l.Authentication {
		if l.Authentication[i].Type != v1alpha1.AuthenticationOAuthBearer {
			continue
		}
		oAuth := l.Authentication[i].OAuth
		switch {
		case oAuth == nil:
			return nil, errors.New("authentication OAuthBearer needs oauth")
		case !l.TLS:
			return nil, errors.New("authentication OAuthBearer needs TLS")
		case oAuth.ServiceAccounts && b.opts.ServiceAccounts == nil:
			return nil, errOnlyKubernetes
		case oAuth.ServiceAccounts:
			return b.opts.ServiceAccounts, nil
		}
		read, err := tokens.HTTPS(oAuth.JWKSURL, func() *x509.CertPool {
			if present := b.opts.Certificates.current.Load().listeners[l.Name]; present != nil {
				return present.oauthCA
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		source := tokens.New(tokens.Options{Read: read, Name: oAuth.Issuer, Logger: b.logger,
			Accept: sasl.Issuer{Issuer: oAuth.Issuer, Audience: oAuth.Audience,
				NameClaim: oAuth.PrincipalClaim}})
		b.issuers = append(b.issuers, source)
		return source, nil
	}
	return nil, nil
}

// followIssuers reads the keys of all token issuers until ctx ends.
func (b *Broker) followIssuers(ctx context.Context) {
	var group sync.WaitGroup
	for _, issuer := range b.issuers {
		group.Go(func() { issuer.Run(ctx) })
	}
	group.Wait()
}
