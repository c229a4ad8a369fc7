// Package await lets tests wait for conditions on the real clock. It has one generous limit, so
// that no test fails because the machine is slow or busy. A component with a simulated clock needs
// no limit: its test runs in a bubble of testing/synctest.
package await

import (
	"testing"
	"time"
)

// Limit is the time after which a test fails. It is much longer than any condition takes on a busy
// machine.
const Limit = 5 * time.Minute

// The intervals between two evaluations of a condition. They double from the shortest.
const (
	shortestInterval = time.Millisecond
	longestInterval  = 100 * time.Millisecond
)

// Until evaluates a condition until it is true. After Limit, it fails the test with the text what,
// which describes the condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	For(t, func() string {
		if condition() {
			return ""
		}
		return what
	})
}

// For calls missing until it returns "". Any other result describes what is still missing; after
// Limit, the test fails with it.
func For(t testing.TB, missing func() string) {
	t.Helper()
	interval := shortestInterval
	for deadline := time.Now().Add(Limit); ; {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %v: %s", Limit, what)
		}
		select {
		case <-time.After(interval):
			interval = min(2*interval, longestInterval)
		case <-t.Context().Done():
			t.Fatalf("test ended: %s", what)
		}
	}
}
