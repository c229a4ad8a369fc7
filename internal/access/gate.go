package access

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/sasl"
)

// reviewTimeout limits one request to the API server.
const reviewTimeout = 5 * time.Second

// Options configures a Gate.
type Options struct {
	// MetricsOpen permits everyone to read the metrics.
	MetricsOpen bool
	// Peer returns the name of the broker or operator that a verified client certificate identifies.
	// It returns an error if the certificate belongs to neither.
	Peer func(*tls.ConnectionState) (string, error)
	// Tokens verifies the tokens of ServiceAccounts. The name in the returned identity is the
	// Kubernetes user name.
	Tokens sasl.TokenVerifier
	// Review asks the API server whether a user has a right on the LogCluster.
	Review   func(ctx context.Context, user string, right Right) (bool, error)
	Audience string                // audience of accepted tokens, for messages
	Registry prometheus.Registerer // optional
	Logger   *slog.Logger          // default: discards everything
}

// Gate admits requests to the HTTP port of a broker.
type Gate struct {
	o       Options
	cache   cache
	reviews singleflight.Group
	refused *prometheus.CounterVec
	mu      struct {
		sync.Mutex
		outage  outage.State        // outages of Review
		denials outage.Fold[denial] // denied requests, to log equal ones once
	}
}

// denial identifies denials that are equal for the log. Its user is "" if the request has no valid
// token.
type denial struct {
	user   string
	right  Right
	reason string
}

// pathBytesMax is the maximum number of bytes of a path in the log.
const pathBytesMax = 128

// New returns a Gate.
func New(o Options) *Gate {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{o: o, refused: newRefused(o.Registry)}
	return g
}

// refusal is the response to a request that the Gate does not admit.
type refusal struct {
	status int
	reason string // reason in report.Failure and in the metric
	text   string
}

// Detailed reports whether the response to a request may contain details. Only responses that
// everyone can get may not.
func Detailed(r *http.Request) bool { return r.Context().Value(anonymous{}) == nil }

// anonymous is the context key that marks a request admitted without a right.
type anonymous struct{}

// Handler returns a handler that passes admitted requests to next.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r.URL.Path) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), anonymous{}, true)))
			return
		}
		right := rightOf(r.Method, r.URL.Path)
		if right == ReadMetrics && g.o.MetricsOpen {
			next.ServeHTTP(w, r)
			return
		}
		user, refused := g.admit(r, right)
		if refused != nil {
			g.refuse(w, r, user, right, refused)
			return
		}
		if right.Verb != "get" {
			g.o.Logger.Info("HTTP request admitted", "audit", true, "user", user,
				"right", right.String(), "path", loggedPath(r), "remote", r.RemoteAddr)
		}
		next.ServeHTTP(w, r)
	})
}

// admit decides on a request that needs a right. It returns the user, or "" if the user is not
// known.
func (g *Gate) admit(r *http.Request, right Right) (user string, refused *refusal) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		peer, err := g.o.Peer(r.TLS)
		if err == nil {
			return peer, nil
		}
	}
	token, found := bearer(r.Header)
	if !found {
		return "", &refusal{http.StatusUnauthorized, reasonUnauthorized,
			"this request needs a token of a ServiceAccount with audience " + g.o.Audience +
				": send it in the header \"Authorization: Bearer TOKEN\""}
	}
	identity, err := g.o.Tokens.Verify(time.Now(), token)
	switch {
	case errors.Is(err, sasl.ErrNoKeys):
		return "", &refusal{http.StatusServiceUnavailable, reasonUnavailable,
			"tokens cannot be verified yet, because the keys of the API server are not known: " +
				"try again later"}
	case err != nil:
		return "", &refusal{http.StatusUnauthorized, reasonUnauthorized,
			"the token is not valid: it must be one of a ServiceAccount with audience " +
				g.o.Audience}
	}
	allowed, err := g.allowed(r.Context(), question{identity.Name, right})
	switch {
	case err != nil:
		return identity.Name, &refusal{http.StatusServiceUnavailable, reasonUnavailable,
			"the API server cannot be asked for the permissions of the token: try again later"}
	case !allowed:
		return identity.Name, &refusal{http.StatusForbidden, reasonForbidden,
			fmt.Sprintf("%s must not %s of this LogCluster: grant it by a Role in group "+
				"heartwood.dev", identity.Name, right)}
	}
	return identity.Name, nil
}

// bearer returns the token in the Authorization header.
func bearer(header http.Header) (token string, found bool) {
	scheme, token, _ := strings.Cut(header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// allowed returns the cached decision, or asks the API server. Equal questions at the same time
// share one request to the API server. That request continues even if the first client disconnects.
func (g *Gate) allowed(ctx context.Context, q question) (bool, error) {
	if allowed, known := g.cache.get(q, time.Now()); known {
		return allowed, nil
	}
	answer := g.reviews.DoChan(q.user+" "+q.right.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		allowed, err := g.o.Review(ctx, q.user, q.right)
		g.reviewed(err)
		if err == nil {
			g.cache.put(q, allowed, time.Now())
		}
		return allowed, err
	})
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case result := <-answer:
		allowed, _ := result.Val.(bool)
		return allowed, result.Err
	}
}

// reviewed logs the beginning and the end of an outage of the API server. Parameter err is the
// result of a review.
func (g *Gate) reviewed(err error) {
	g.mu.Lock()
	begins, failures, ends := false, 0, false
	if err != nil {
		begins = g.mu.outage.Fail(time.Now())
	} else {
		failures, ends = g.mu.outage.Succeed()
	}
	g.mu.Unlock()
	switch {
	case begins:
		g.o.Logger.Warn("failed to ask the API server for permissions on the HTTP port",
			"error", err)
	case ends:
		g.o.Logger.Info("permissions on the HTTP port reviewed again", "failures", failures)
	}
}

// loggedPath returns at most the first pathBytesMax bytes of the request's path.
func loggedPath(r *http.Request) string {
	path := r.URL.Path
	return strings.ToValidUTF8(path[:min(len(path), pathBytesMax)], "")
}

// refuse responds to a request that was not admitted. It logs equal denials once a minute. All
// requests without a valid token count as equal, because everyone can send them.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request, user string, right Right,
	refused *refusal) {
	g.refused.WithLabelValues(refused.reason).Inc()
	key := denial{user, right, refused.reason}
	if user == "" {
		key = denial{}
	}
	g.mu.Lock()
	folded, logs := g.mu.denials.Add(key, time.Now())
	g.mu.Unlock()
	if logs {
		g.o.Logger.Info("HTTP request refused", "audit", true, "user", user, "right",
			right.String(), "reason", refused.reason, "path", loggedPath(r), "remote", r.RemoteAddr,
			"deniedAndNotLogged", folded)
	}
	w.Header().Set("Content-Type", "application/json")
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="heartwood"`)
	}
	w.WriteHeader(refused.status)
	// Encode fails only if the client has disconnected.
	_ = json.NewEncoder(w).Encode(report.Failure{Error: refused.text, Reason: refused.reason})
}
