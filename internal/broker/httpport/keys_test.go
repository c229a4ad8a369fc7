package httpport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"heartwood.dev/heartwood/internal/replica"
)

// TestLookupsDoNotQueueForever checks that a request that finds no free slot is refused after
// lookupWait, and that a canceled request is refused immediately.
func TestLookupsDoNotQueueForever(t *testing.T) {
	slots := make(chan struct{}, 1)
	if err := enter(t.Context(), slots); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"waiting": t.Context(),
		"canceled": canceled} {
		if err := enter(ctx, slots); !errors.Is(err, errNotReady) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	<-slots
	if err := enter(t.Context(), slots); err != nil {
		t.Error(err)
	}
}

// TestLookupFailuresWithoutLeadership checks the status codes of failed lookups: 503 if the client
// may retry at this broker, because the newest acknowledged record is not known yet or the epoch is
// fenced, and 421 if it must ask another broker.
func TestLookupFailuresWithoutLeadership(t *testing.T) {
	for err, code := range map[error]int{
		replica.ErrOffsetNotAvailable: http.StatusServiceUnavailable,
		replica.ErrFencedLeaderEpoch:  http.StatusServiceUnavailable,
		replica.ErrNotLeader:          http.StatusMisdirectedRequest,
	} {
		w := httptest.NewRecorder()
		respondReport(w, nil, notLeading(fmt.Errorf("%w: detail", err)))
		if w.Code != code {
			t.Errorf("%v: got status %d, want %d", err, w.Code, code)
		}
	}
}
