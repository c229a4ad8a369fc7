package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// filterTTL is how long a decision on a token, a verb and a path is cached.
	filterTTL = 10 * time.Second
	// filterMax is the maximum number of cached decisions.
	filterMax = 1024
	// filterQPS limits the requests to the API server per second, because everyone who reaches the
	// port can send tokens.
	filterQPS = 20
)

// Filter admits requests to the operator's metrics. The API server must accept the request's token
// (TokenReview), and the token's user must be allowed to use the HTTP method on the path
// (SubjectAccessReview). Filter makes the same decisions as controller-runtime's filter, whose
// dependencies would add 3 MB to the memory of each broker (ADR 0237).
type Filter struct {
	authentication *authenticationclient.AuthenticationV1Client
	authorization  *authorizationclient.AuthorizationV1Client
	mu             struct {
		sync.Mutex
		decisions map[filterKey]filterDecision
	}
}

// filterKey identifies a decision: a hash of the token, the verb and the path.
type filterKey struct {
	token      [sha256.Size]byte
	verb, path string
}

type filterDecision struct {
	status int
	until  time.Time
}

// NewFilter is a FilterProvider for controller-runtime's metrics server.
func NewFilter(config *rest.Config,
	_ *http.Client) (func(logr.Logger, http.Handler) (http.Handler, error), error) {
	limited := rest.CopyConfig(config)
	limited.Timeout, limited.QPS, limited.Burst = requestTimeout, filterQPS, 2*filterQPS
	f := &Filter{}
	var err error
	if f.authentication, err = authenticationclient.NewForConfig(limited); err != nil {
		return nil, fmt.Errorf("create the client for tokens: %w", err)
	}
	if f.authorization, err = authorizationclient.NewForConfig(limited); err != nil {
		return nil, fmt.Errorf("create the client for permissions: %w", err)
	}
	f.mu.decisions = map[filterKey]filterDecision{}
	return func(logger logr.Logger, next http.Handler) (http.Handler, error) {
		return f.handler(logger, next), nil
	}, nil
}

func (f *Filter) handler(logger logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") || token == "" {
			http.Error(w, "this request needs a token: send it in the header "+
				"\"Authorization: Bearer TOKEN\"", http.StatusUnauthorized)
			return
		}
		key := filterKey{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
		status, err := f.decide(r.Context(), key, token)
		switch {
		case err != nil:
			logger.Error(err, "failed to authorize a request for metrics")
			http.Error(w, "the API server cannot be asked: try again later",
				http.StatusServiceUnavailable)
		case status == http.StatusUnauthorized:
			http.Error(w, "the token is not valid", status)
		case status == http.StatusForbidden:
			http.Error(w, fmt.Sprintf("the token's user must not %s %s: grant it by a ClusterRole "+
				"with nonResourceURLs", key.verb, key.path), status)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// decide returns http.StatusOK, StatusUnauthorized or StatusForbidden.
func (f *Filter) decide(ctx context.Context, key filterKey, token string) (int, error) {
	now := time.Now()
	f.mu.Lock()
	known, ok := f.mu.decisions[key]
	f.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.status, nil
	}
	// The client's own timeout starts only after the request has waited for the rate limit.
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, err := f.review(ctx, key, token)
	if err != nil {
		return 0, err
	}
	f.remember(key, status, now)
	return status, nil
}

// remember caches a decision. If the cache is full, remember removes expired decisions, and then
// refusals, because everyone can cause refusals.
func (f *Filter) remember(key filterKey, status int, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, removable := range []func(filterKey, filterDecision) bool{
		func(_ filterKey, d filterDecision) bool { return !now.Before(d.until) },
		func(_ filterKey, d filterDecision) bool { return d.status != http.StatusOK },
		func(filterKey, filterDecision) bool { return status == http.StatusOK },
	} {
		if len(f.mu.decisions) >= filterMax {
			maps.DeleteFunc(f.mu.decisions, removable)
		}
	}
	if len(f.mu.decisions) < filterMax {
		f.mu.decisions[key] = filterDecision{status, now.Add(filterTTL)}
	}
}

// review asks the API server for a decision and returns it as an HTTP status.
func (f *Filter) review(ctx context.Context, key filterKey, token string) (int, error) {
	tokenReview, err := f.authentication.TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("review the token: %w", err)
	case !tokenReview.Status.Authenticated:
		return http.StatusUnauthorized, nil
	case tokenReview.Status.User.Username == "":
		return 0, errors.New("review the token: the user has no name")
	}
	user := tokenReview.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	review, err := f.authorization.SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: key.path,
				Verb: key.verb}}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return 0, fmt.Errorf("review permissions: %w", err)
	case !review.Status.Allowed || review.Status.Denied:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
