// Package await lets tests wait for conditions on the real clock. It has one generous limit,
// because no test must fail only because the machine is slow or busy. A component with a simulated
// clock needs no limit; its test runs in a bubble of testing/synctest.
package await

import (
	"testing"
	"time"
)

// Limit is the time after which a test fails. It is much longer than any condition takes on a busy
// machine.
const Limit = 5 * time.Minute

// Shortest and longest interval between two evaluations of a condition. The interval doubles from
// the shortest.
const (
	shortestInterval = time.Millisecond
	longestInterval  = 100 * time.Millisecond
)

// Until evaluates a condition until it is true. After Limit, it fails the test with the description
// what.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	For(t, func() string {
		if condition() {
			return ""
		}
		return what
	})
}

// For calls missing until missing returns "". Any other result describes what is still missing.
// After Limit, the test fails with this description.
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
