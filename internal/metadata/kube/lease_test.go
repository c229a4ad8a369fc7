package kube

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/internal/metadata"
)

// unavailable is a client whose API server is unavailable.
type unavailable struct{ client.Client }

func (unavailable) Get(context.Context, client.ObjectKey, client.Object,
	...client.GetOption) error {
	return errors.New("no route")
}

func TestFailureToAcquireTheLeaseIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		opts := Options{Namespace: "logs", Cluster: "demo",
			Logger: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := newKeeper(unavailable{}, opts,
			metadata.Broker{ID: 1}).acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1 {
			t.Errorf("got %d log lines, want 1:\n%.500s", lines, log.String())
		}
	})
}
