package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/sasl"
)

// accounts is a fake of Options.Tokens and Options.Review. It accepts tokens of the form
// "ok-<name>".
type accounts struct {
	rights  map[question]bool
	down    atomic.Bool // the API server is unavailable
	noKeys  atomic.Bool
	reviews atomic.Int32
	slow    chan struct{} // reviews wait until it is closed; nil: reviews do not wait
}

func (a *accounts) Verify(_ time.Time, token string) (sasl.Identity, error) {
	if a.noKeys.Load() {
		return sasl.Identity{}, sasl.ErrNoKeys
	}
	name, ok := strings.CutPrefix(token, "ok-")
	if !ok {
		return sasl.Identity{}, errors.New("signature of the token is invalid")
	}
	return sasl.Identity{Name: name}, nil
}

func (a *accounts) review(_ context.Context, user string, right Right) (bool, error) {
	a.reviews.Add(1)
	if a.slow != nil {
		<-a.slow
	}
	if a.down.Load() {
		return false, errors.New("connection refused")
	}
	return a.rights[question{user, right}], nil
}

func (a *accounts) gate(metricsOpen bool) http.Handler {
	gate := New(Options{MetricsOpen: metricsOpen, Tokens: a, Review: a.review, Audience: "aud",
		Peer: func(state *tls.ConnectionState) (string, error) {
			if name := state.PeerCertificates[0].Subject.CommonName; name != "other" {
				return name, nil
			}
			return "", errors.New("not a broker")
		}})
	return gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "served, detailed ", Detailed(r))
	}))
}

// request is one HTTP request with a token and the name in the client certificate.
type request struct{ method, path, token, certificate string }

func (r request) send(t *testing.T, to http.Handler) (status int, body string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), r.method, r.path, http.NoBody)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	req.TLS = &tls.ConnectionState{}
	if r.certificate != "" {
		leaf := &x509.Certificate{}
		leaf.Subject.CommonName = r.certificate
		req.TLS.PeerCertificates = []*x509.Certificate{leaf}
	}
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, req)
	return answer.Code, answer.Body.String()
}

// TestRequestsNeedRights checks each kind of request with no token, an invalid token, a token
// without the right, a token with the right, and a broker's certificate.
func TestRequestsNeedRights(t *testing.T) {
	for _, c := range []struct {
		method, path string
		right        Right
	}{
		{"GET", "/metrics", ReadMetrics}, {"HEAD", "/metrics", ReadMetrics},
		{"GET", "/api/v1/partitions", ReadReports}, {"GET", "/api/v1/topics?topic=a", ReadReports},
		{"GET", "/api/v1/topics/a/keys?key=a2V5", ReadRecords},
		{"HEAD", "/api/v1/topics/a/keys", ReadRecords},
		{"GET", "/api/v1/topics/a/replicas", ReadReports},
		{"GET", "/api/v1/may-stop/3", ReadReports}, {"GET", "/debug/pprof/heap", ReadReports},
		{"POST", "/debug/pprof/symbol", ReadReports}, {"POST", "/debug/pprof", AbortTransaction},
		{"GET", "/unknown", ReadReports}, {"GET", "/healthz/", ReadReports},
		{"POST", "/api/v1/topics/orders/clean", CleanTopics},
		{"POST", "/api/v1/scrub", ScrubBrokers}, {"GET", "/api/v1/scrub", ReadReports},
		{"POST", "/api/v1/transactions/t/abort", AbortTransaction},
		{"POST", "/api/v1/topics/orders/abort-transaction", AbortTransaction},
		{"POST", "/metrics", AbortTransaction}, {"DELETE", "/healthz/x", AbortTransaction},
	} {
		every := map[question]bool{}
		for _, right := range []Right{ReadMetrics, ReadReports, ReadRecords, CleanTopics,
			ScrubBrokers, AbortTransaction} {
			every[question{"allowed", right}] = right == c.right
			every[question{"others", right}] = right != c.right
		}
		gate := (&accounts{rights: every}).gate(false)
		for _, test := range []struct {
			token, certificate string
			status             int
			text               string
		}{
			{"", "", http.StatusUnauthorized, "needs a token"},
			{"forged", "", http.StatusUnauthorized, "not valid"},
			{"ok-others", "", http.StatusForbidden, c.right.String()},
			{"ok-allowed", "", http.StatusOK, "served"},
			{"", "broker", http.StatusOK, "served"},
			{"", "other", http.StatusUnauthorized, "needs a token"},
			{"ok-others", "other", http.StatusForbidden, ""},
		} {
			status, body := request{c.method, c.path, test.token, test.certificate}.send(t, gate)
			if status != test.status || !strings.Contains(body, test.text) {
				t.Errorf("%s %s with token %q, certificate %q: got %d %s, want %d with %q", c.method,
					c.path, test.token, test.certificate, status, body, test.status, test.text)
			}
			var failure report.Failure
			if status != http.StatusOK && (json.Unmarshal([]byte(body), &failure) != nil ||
				failure.Error == "" || failure.Reason == "" || strings.Contains(body, "forged")) {
				t.Errorf("%s %s: got body %s", c.method, c.path, body)
			}
		}
	}
}

func TestHealthIsOpenWithoutDetail(t *testing.T) {
	gate := (&accounts{}).gate(false)
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := (request{"GET", path, "", ""}).send(t, gate); status != http.StatusOK ||
			body != "served, detailed false" {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
	gate = (&accounts{}).gate(true)
	if status, _ := (request{"GET", "/metrics", "", ""}).send(t, gate); status != http.StatusOK {
		t.Errorf("open metrics: got %d", status)
	}
	if status, _ := (request{"POST", "/metrics", "", ""}).send(t, gate); status !=
		http.StatusUnauthorized {
		t.Errorf("POST to open metrics: got %d", status)
	}
}

// TestDecisionsAreCached checks that a decision of the API server is used for ten seconds. After
// that a withdrawn right has no effect. While the API server is unavailable, requests without a
// cached decision are refused.
func TestDecisionsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &accounts{rights: map[question]bool{{"prometheus", ReadMetrics}: true}}
		gate := a.gate(false)
		scrape := func() int {
			status, _ := request{"GET", "/metrics", "ok-prometheus", ""}.send(t, gate)
			return status
		}
		for range 100 {
			if status := scrape(); status != http.StatusOK {
				t.Fatalf("got %d", status)
			}
		}
		if n := a.reviews.Load(); n != 1 {
			t.Errorf("%d reviews for 100 requests", n)
		}
		a.down.Store(true)
		time.Sleep(cacheTTL - time.Second)
		if status := scrape(); status != http.StatusOK {
			t.Errorf("while the decision is cached: got %d", status)
		}
		time.Sleep(time.Second)
		if status := scrape(); status != http.StatusServiceUnavailable {
			t.Errorf("without the API server: got %d", status)
		}
		a.down.Store(false)
		a.rights = nil
		if status := scrape(); status != http.StatusForbidden {
			t.Errorf("without the right: got %d", status)
		}
		a.noKeys.Store(true)
		if status := scrape(); status != http.StatusServiceUnavailable {
			t.Errorf("without keys: got %d", status)
		}
	})
}

// TestDenialsAreFolded checks that an account that repeats a denied request, clients without a
// token, and long paths do not fill the log.
func TestDenialsAreFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &accounts{}
		gate := New(Options{Tokens: a, Review: a.review, Audience: "aud",
			Logger: slog.New(slog.NewTextHandler(&log, nil))}).Handler(http.NotFoundHandler())
		long := "/" + strings.Repeat("p", 10_000)
		storm := func() (lines int) {
			log.Reset()
			for range 100 {
				for _, token := range []string{"", "forged", "ok-a", "ok-b"} {
					request{"GET", long, token, ""}.send(t, gate)
				}
				request{"GET", "/metrics", "ok-a", ""}.send(t, gate)
			}
			return strings.Count(log.String(), "\n")
		}
		const kinds = 4 // no valid token, a and b on the long path, a on the metrics
		if lines := storm(); lines != kinds {
			t.Errorf("%d lines, want %d", lines, kinds)
		}
		if n := log.Len(); n > kinds*(pathBytesMax+300) {
			t.Errorf("the lines have %d bytes", n)
		}
		if lines := storm(); lines != 0 {
			t.Errorf("%d lines in the same minute", lines)
		}
		time.Sleep(time.Minute)
		want := fmt.Sprintf("deniedAndNotLogged=%d", 2*500-kinds)
		if lines := storm(); lines != kinds || !strings.Contains(log.String(), want) {
			t.Errorf("%d lines without %s:\n%s", lines, want, log.String())
		}
	})
}

// TestEqualQuestionsShareOneReview checks that a client that disconnects does not cancel the review
// that other clients wait for.
func TestEqualQuestionsShareOneReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &accounts{rights: map[question]bool{{"p", ReadMetrics}: true},
			slow: make(chan struct{})}
		gate := a.gate(false)
		var group sync.WaitGroup
		var served atomic.Int32
		first, cancel := context.WithCancel(t.Context())
		group.Go(func() {
			r := httptest.NewRequestWithContext(first, "GET", "/metrics", http.NoBody)
			r.Header.Set("Authorization", "bearer ok-p")
			gate.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		for range 50 {
			group.Go(func() {
				if status, _ := (request{"GET", "/metrics", "ok-p", ""}).send(t, gate); status == 200 {
					served.Add(1)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(a.slow)
		group.Wait()
		if served.Load() != 50 || a.reviews.Load() != 1 {
			t.Errorf("%d of 50 served by %d reviews", served.Load(), a.reviews.Load())
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	var c cache
	now := time.Unix(1000, 0)
	for i := range 10 * cacheMax {
		c.put(question{user: fmt.Sprint(i)}, true, now)
		if len(c.decisions) > cacheMax {
			t.Fatalf("%d decisions", len(c.decisions))
		}
	}
	if allowed, known := c.get(question{user: fmt.Sprint(10*cacheMax - 1)}, now); !allowed || !known {
		t.Error("the last decision is missing")
	}
	if _, known := c.get(question{user: fmt.Sprint(10*cacheMax - 1)}, now.Add(-time.Hour)); known {
		t.Error("a decision of the future was used")
	}
}
