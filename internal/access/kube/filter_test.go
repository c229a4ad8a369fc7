package kube

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

// TestFilterDoesNotQueueRequests sends more invalid tokens than the rate limit admits within
// requestTimeout. The Filter must refuse the excess requests instead of letting them wait.
func TestFilterDoesNotQueueRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}`)
	}))
	defer server.Close()
	filter, err := NewFilter(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	const requests = 1000
	ctx, cancel := context.WithCancel(t.Context())
	statuses := make(chan int, requests)
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "GET", "/metrics", http.NoBody)
			r.Header.Set("Authorization", fmt.Sprint("Bearer ", i))
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			statuses <- answer.Code
		})
	}
	refused := false
	for i := 0; i < requests && !refused; i++ {
		refused = <-statuses == http.StatusServiceUnavailable
	}
	cancel()
	group.Wait()
	if !refused {
		t.Error("every request has waited for the rate limit")
	}
}

// TestRefusalsDoNotEvictAdmissions checks that many refusals do not remove an admission from the
// cache.
func TestRefusalsDoNotEvictAdmissions(t *testing.T) {
	f := &Filter{}
	f.mu.decisions = map[filterKey]filterDecision{}
	now := time.Unix(1000, 0)
	key := func(kind string, i int) filterKey {
		return filterKey{token: sha256.Sum256(fmt.Append(nil, kind, i))}
	}
	f.remember(key("admitted", 0), http.StatusOK, now)
	for i := range 3 * filterMax {
		f.remember(key("refused", i), http.StatusUnauthorized, now)
	}
	if _, known := f.mu.decisions[key("admitted", 0)]; !known {
		t.Error("an admission was evicted by refusals")
	}
	for i := range 3 * filterMax {
		f.remember(key("admitted", i), http.StatusOK, now)
		if len(f.mu.decisions) > filterMax {
			t.Fatalf("%d decisions are stored", len(f.mu.decisions))
		}
	}
	if _, known := f.mu.decisions[key("admitted", 3*filterMax-1)]; !known {
		t.Error("the last admission is missing")
	}
	f.remember(key("late", 0), http.StatusUnauthorized, now.Add(filterTTL))
	if len(f.mu.decisions) != 1 {
		t.Errorf("%d decisions are stored after all have expired", len(f.mu.decisions))
	}
}
