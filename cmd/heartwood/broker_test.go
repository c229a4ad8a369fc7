package main

import (
	"context"
	"errors"
	"testing"
)

func TestHTTPStaysUntilTheBrokerHasEnded(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan context.Context, 1)
	err := runWithHTTP(ctx, func(serving context.Context) error {
		began <- serving
		<-serving.Done()
		return nil
	}, func(ctx context.Context) error {
		serving := <-began
		stop()
		<-ctx.Done()
		return serving.Err() // it hands over
	})
	if err != nil {
		t.Errorf("HTTP ended before the broker: %v", err)
	}
}

func TestABrokerEndsWithItsHTTP(t *testing.T) {
	failed := errors.New("no such port")
	err := runWithHTTP(t.Context(), func(context.Context) error { return failed },
		func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	if !errors.Is(err, failed) {
		t.Errorf("error %v, want %v", err, failed)
	}
}
