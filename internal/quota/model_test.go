package quota

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

// model is a bucket that is refilled in steps of one millisecond.
type model struct {
	tokens  float64
	rate    float64
	elapsed time.Duration
}

func (m *model) advance(to time.Duration, rate float64) {
	for ; m.elapsed < to; m.elapsed += time.Millisecond {
		m.tokens = min(capacity(m.rate), m.tokens+m.rate/1000)
	}
	// A changed rate changes the capacity, but not the number of used units.
	m.tokens += capacity(rate) - capacity(m.rate)
	m.rate = rate
}

// throttle counts the steps until the debt is paid.
func (m *model) throttle() (wait time.Duration) {
	for tokens := m.tokens; tokens < -1e-6; tokens += m.rate / 1000 {
		wait += time.Millisecond
	}
	return wait
}

// TestBucketAgainstModel compares buckets with the model. It charges random units at random times,
// with changing rates.
func TestBucketAgainstModel(t *testing.T) {
	for s := range seed.Sequence(t, 50) {
		random := rand.New(rand.NewPCG(s, 0))
		rate := float64(1 + random.IntN(1000))
		m := model{tokens: capacity(rate), rate: rate}
		var users Users
		elapsed, epoch := time.Duration(0), time.Unix(1_000_000, 0)
		for range 60 {
			elapsed += time.Duration(random.IntN(3000)) * time.Millisecond
			if random.IntN(10) == 0 {
				rate = float64(1 + random.IntN(1000))
			}
			m.advance(elapsed, rate)
			units := float64(random.IntN(int(rate*4) + 1))
			if random.IntN(8) == 0 {
				units = -units
			}
			m.tokens = min(capacity(rate), m.tokens-units)
			limits := Limits{Produce: rate}
			got := users.Charge("u", &limits, Produce, units, epoch.Add(elapsed))
			want := m.throttle()
			if diff := (got - want).Abs(); diff > 2*time.Millisecond {
				t.Fatalf("seed %d: after %v at rate %v: throttle %v, want %v", s, elapsed, rate, got, want)
			}
		}
	}
}

// TestWaitingUserStaysWithinTheRate checks the package's invariant for a user who waits as long as
// required.
func TestWaitingUserStaysWithinTheRate(t *testing.T) {
	for s := range seed.Sequence(t, 20) {
		random := rand.New(rand.NewPCG(s, 0))
		rate := 1000 * random.Float64()
		limits := Limits{Fetch: rate}
		var users Users
		now := time.Unix(1_000_000, 0)
		begin, total, largest := now, 0.0, 0.0
		for range 2000 {
			units := random.ExpFloat64() * rate * 3
			total, largest = total+units, max(largest, units)
			now = now.Add(users.Charge("u", &limits, Fetch, units, now))
			if random.IntN(3) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(time.Second))))
			}
		}
		most := rate*(now.Sub(begin)+Burst).Seconds() + largest
		if total > most {
			t.Fatalf("seed %d: used %.0f, at most %.0f are permitted", s, total, most)
		}
		if total < most/2 {
			t.Fatalf("seed %d: used only %.0f of %.0f: the quota throttles too long", s, total, most)
		}
	}
}

// TestUsersAreForgottenWithoutConsequence compares Users, which holds a limited number of users,
// with one bucket per user that is never forgotten.
func TestUsersAreForgottenWithoutConsequence(t *testing.T) {
	limits := Limits{Produce: 100, Mutation: 1}
	var users Users
	now := time.Unix(1_000_000, 0)
	users.Charge("debtor", &limits, Produce, 100_000, now)
	for range 3 * usersMax {
		now = now.Add(10 * time.Millisecond)
		users.Charge(now.String(), &limits, Mutation, 5, now)
		if len(users.buckets) > usersMax {
			t.Fatalf("%d users are in memory", len(users.buckets))
		}
	}
	// After 300 s, 30,000 units were refilled. The bucket has space for 1,000 units.
	got := users.Debt("debtor", &limits, Produce, now)
	if want := 690 * time.Second; math.Abs(float64(got-want)) > float64(time.Second) {
		t.Errorf("debt %v, want %v", got, want)
	}
}

// TestManyDebtorsAreBounded checks the limit on the number of users with users whose buckets are
// not full.
func TestManyDebtorsAreBounded(t *testing.T) {
	limits := Limits{Produce: 1}
	var users Users
	now := time.Unix(1_000_000, 0)
	for i := range 2 * usersMax {
		now = now.Add(time.Microsecond)
		users.Charge(string(rune(i)), &limits, Produce, 1e6, now)
	}
	if len(users.buckets) > usersMax {
		t.Errorf("%d users are in memory", len(users.buckets))
	}
}
