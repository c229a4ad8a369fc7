package quota

import (
	"testing"
	"time"
)

func TestUnlimitedKindIsNotCharged(t *testing.T) {
	var users Users
	limits := Limits{Fetch: 1}
	if got := users.Charge("u", &limits, Produce, 1e9, time.Now()); got != 0 {
		t.Errorf("throttle %v", got)
	}
	if len(users.buckets) != 0 {
		t.Error("a user without a limit has a bucket")
	}
}

// TestKindsAndUsersAreIndependent charges one kind of one user, and checks that other kinds and
// users are not affected.
func TestKindsAndUsersAreIndependent(t *testing.T) {
	var users Users
	limits, now := Limits{1, 1, 1, 1}, time.Unix(1_000_000, 0)
	users.Charge("a", &limits, Fetch, 1000, now)
	for user, indebted := range map[string]bool{"a": true, "b": false} {
		for kind := range Kinds {
			got := users.Debt(user, &limits, kind, now) > 0
			if got != (indebted && kind == Fetch) {
				t.Errorf("user %s, kind %s: in debt: %v", user, kind, got)
			}
		}
	}
}

// TestRaisedLimitShortensTheDebt checks that raising a limit shortens an existing debt. A limit
// that was too low by mistake must not have an effect for long after it was raised.
func TestRaisedLimitShortensTheDebt(t *testing.T) {
	var users Users
	now := time.Unix(1_000_000, 0)
	if got := users.Charge("u", &Limits{Produce: 1}, Produce, 1e6, now); got < 11*24*time.Hour {
		t.Fatalf("throttle %v", got)
	}
	if got := users.Debt("u", &Limits{Produce: 1e6}, Produce, now); got != 0 {
		t.Errorf("throttle %v after the limit was raised", got)
	}
}

// TestRequestThrottleIsBounded checks that large debts of processing time are forgiven, because
// this quota also throttles heartbeats.
func TestRequestThrottleIsBounded(t *testing.T) {
	var users Users
	limits, now := Limits{Request: 0.5}, time.Unix(1_000_000, 0)
	if got := users.Charge("u", &limits, Request, 1e6, now); got != RequestThrottleMax {
		t.Errorf("throttle %v, want %v", got, RequestThrottleMax)
	}
	if got := users.Debt("u", &limits, Request, now.Add(Burst)); got != 0 {
		t.Errorf("throttle %v after %v", got, Burst)
	}
}

// TestEarlierTimeAddsNothing checks a charge with an earlier time than the previous charge. This is
// possible because concurrent requests may be charged in another order than they were timed.
func TestEarlierTimeAddsNothing(t *testing.T) {
	var users Users
	limits, now := Limits{Produce: 1}, time.Unix(1_000_000, 0)
	users.Charge("u", &limits, Produce, 20, now)
	for range 5 {
		users.Charge("u", &limits, Produce, 0, now.Add(-time.Second))
		if got := users.Charge("u", &limits, Produce, 0, now); got != Burst {
			t.Fatalf("throttle %v, want %v", got, Burst)
		}
	}
}

// TestChargeOfKnownUserAllocatesNothing checks that a charge allocates no memory, because each
// produced and fetched batch is charged.
func TestChargeOfKnownUserAllocatesNothing(t *testing.T) {
	var users Users
	limits, now := Limits{Produce: 1e9}, time.Unix(1_000_000, 0)
	if allocs := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Millisecond)
		users.Charge("u", &limits, Produce, 100, now)
	}); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkCharge(b *testing.B) {
	var users Users
	limits, now := Limits{Produce: 1e9}, time.Unix(1_000_000, 0)
	for b.Loop() {
		now = now.Add(time.Microsecond)
		users.Charge("u", &limits, Produce, 100, now)
	}
}
