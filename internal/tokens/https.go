package tokens

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// jwksBytesMax limits the size of the keys of an issuer.
const jwksBytesMax = 1 << 20

// HTTPS returns a function for Options.Read that reads the keys from a URL. It follows no redirect:
// the URL in the resource is the only one from which keys are accepted. Parameter config may be
// nil: the certificate of the server is then verified by the CAs of the system.
func HTTPS(from string, config *tls.Config) (func(context.Context) (Found, error), error) {
	parsed, err := url.Parse(from)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return nil, fmt.Errorf("the URL of the issuer's keys %q is not an https URL", from)
	}
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config,
			DisableKeepAlives: true, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed")
		},
	}
	return func(ctx context.Context) (Found, error) {
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
