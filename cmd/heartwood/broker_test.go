package main

import (
	"context"
	"errors"
	"testing"
)

func TestHTTPIsServedUntilTheBrokerHasStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan context.Context, 1)
	err := runWithHTTP(ctx, func(serving context.Context) error {
		started <- serving
		<-serving.Done()
		return nil
	}, func(ctx context.Context) error {
		serving := <-started
		stop()
		<-ctx.Done()
		return serving.Err() // nil if HTTP is still served while the broker stops
	})
	if err != nil {
		t.Errorf("HTTP stopped before the broker: %v", err)
	}
}

func TestBrokerStopsWhenItsHTTPServerFails(t *testing.T) {
	failed := errors.New("no such port")
	err := runWithHTTP(t.Context(), func(context.Context) error { return failed },
		func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	if !errors.Is(err, failed) {
		t.Errorf("got error %v, want %v", err, failed)
	}
}
