package tokens

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"heartwood.dev/heartwood/internal/tlsconfig"
)

// jwksBytesMax limits the size of an issuer's keys (JWKS).
const jwksBytesMax = 1 << 20

// HTTPS returns a function for Options.Read that reads the keys from a URL. It does not follow
// redirects, because keys are accepted only from the URL in the resource. Function roots returns
// the CAs that verify the server's certificate; if roots or its result is nil, PublicRoots is used.
func HTTPS(from string, roots func() *x509.CertPool) (func(context.Context) (Found, error),
	error) {
	parsed, err := url.Parse(from)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return nil, fmt.Errorf("the URL of the issuer's keys %q is not an https URL", from)
	}
	return func(ctx context.Context) (Found, error) {
		config := tlsconfig.New()
		if roots != nil {
			config.RootCAs = roots()
		}
		if config.RootCAs == nil {
			config.RootCAs = PublicRoots()
		}
		client := &http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
				DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("redirects are not followed")
			},
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
		if err != nil {
			return Found{}, err
		}
		response, err := client.Do(request)
		if err != nil {
			return Found{}, err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return Found{}, fmt.Errorf("read %s: status %s", from, response.Status)
		}
		content, err := io.ReadAll(io.LimitReader(response.Body, jwksBytesMax+1))
		if err != nil {
			return Found{}, fmt.Errorf("read %s: %w", from, err)
		}
		if len(content) > jwksBytesMax {
			return Found{}, fmt.Errorf("read %s: more than %d bytes", from, jwksBytesMax)
		}
		return Found{JWKS: content}, nil
	}, nil
}

// PublicRoots returns the system's CAs. If the system has none, as in the container image, it
// returns Mozilla's CAs.
var PublicRoots = sync.OnceValue(func() *x509.CertPool {
	if pool, err := x509.SystemCertPool(); err == nil && !pool.Equal(x509.NewCertPool()) {
		return pool
	}
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			continue
		}
		if root.Constraint == nil {
			pool.AddCert(certificate)
		} else {
			pool.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	return pool
})
