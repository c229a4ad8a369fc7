package quota

import (
	"math"
	"time"
)

// Kind is the resource that a quota limits.
type Kind int8

// The kinds of quotas, with their units.
const (
	Produce  Kind = iota // bytes of Produce requests
	Fetch                // bytes in Fetch responses
	Request              // seconds of processing time
	Mutation             // partitions created and deleted
	Kinds                // the number of kinds
)

// String returns the kind's name in metrics.
func (k Kind) String() string {
	return [Kinds]string{"produce", "fetch", "request", "mutation"}[k]
}

// Limits contains one user's quotas: the permitted rate for each kind, in units per second. A rate
// of 0 means no limit.
type Limits [Kinds]float64

const (
	// Burst determines the size of a bucket: a full bucket permits at once what the quota's rate
	// permits in this time.
	Burst = 10 * time.Second
	// RequestThrottleMax limits a throttle for kind Request, as in Kafka (quota.window.size.seconds).
	// This quota throttles all requests, and a longer throttle would remove consumers from their
	// groups.
	RequestThrottleMax = time.Second
)

// bucket is a token bucket. The zero value is a full bucket.
type bucket struct {
	// used is the number of used units that had not been refilled at the time moment: 0 <= used. The
	// bucket is in debt if used exceeds the capacity.
	used   float64
	moment time.Time
	rate   float64 // rate since moment
}

// capacity returns the number of units in a full bucket.
func capacity(rate float64) float64 { return rate * Burst.Seconds() }

// refill adds the units for the time since the last call. If the rate has changed, the previous
// rate applies until now. If now is before the last call's time, refill adds nothing.
func (b *bucket) refill(rate float64, now time.Time) {
	if passed := now.Sub(b.moment); passed > 0 {
		b.used, b.moment = max(0, b.used-b.rate*passed.Seconds()), now
	}
	b.rate = rate
}

// debt returns how long it takes until the bucket has refilled to 0, or 0 if it is not in debt.
func (b *bucket) debt() time.Duration {
	units := b.used - capacity(b.rate)
	if units <= 0 {
		return 0
	}
	// Round up, because even a debt of less than a nanosecond is a debt.
	return time.Duration(min(math.Ceil(units/b.rate*float64(time.Second)), math.MaxInt64/2))
}

// charge takes units from a bucket that has been refilled to the current time. A negative number
// returns units.
func (b *bucket) charge(kind Kind, units float64) {
	b.used = max(0, b.used+units)
	if kind == Request {
		// The throttle for Request is limited, so limit its debt too. Otherwise a user would be throttled
		// for hours after a minute of load.
		b.used = min(b.used, 2*capacity(b.rate))
	}
}

// isFull reports whether the bucket is as full as a new one.
func (b *bucket) isFull(now time.Time) bool {
	return b.used <= b.rate*max(0, now.Sub(b.moment)).Seconds()
}
