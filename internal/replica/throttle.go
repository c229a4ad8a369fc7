package replica

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// catchUpThrottle limits the bytes that followers outside the ISR copy from this broker. Followers
// in the ISR are not limited, because producers wait for them. Replicas that a reassignment adds
// share one throttle (spec.rebalance.rate). All others, such as replicas on restarted brokers,
// share a second one (spec.replication.catchUpRate), so that moves do not delay them.
type catchUpThrottle struct{ limiter *rate.Limiter }

func newCatchUpThrottle() catchUpThrottle { return catchUpThrottle{rate.NewLimiter(rate.Inf, 0)} }

// setRate sets the limit in bytes per second; a value <= 0 means no limit. The bytes of one second
// may be sent at once.
func (t catchUpThrottle) setRate(bytesRate int64) {
	limit, burst := rate.Inf, 0
	if bytesRate > 0 {
		limit = rate.Limit(bytesRate)
		burst = int(max(bytesRate, followerPartitionBytesMax))
	}
	t.limiter.SetLimit(limit)
	t.limiter.SetBurst(burst)
}

// throttleOf returns a follower's throttle. If no rate for moves is set, the rate of the other
// followers also applies to moves.
func (s *Set) throttleOf(r *role, follower int32) catchUpThrottle {
	if s.moves.limiter.Burst() > 0 && slices.Contains(r.adding, follower) {
		return s.moves
	}
	return s.catchUp
}

func (t catchUpThrottle) applies(r *role, follower int32) bool {
	return t.limiter.Burst() > 0 && !r.leaderState.isRecorded(follower)
}

// allow returns how many bytes a follower may receive now. throttled is set if the limit permits
// none.
func (t catchUpThrottle) allow(r *role, follower int32, bytesMax int) (bytes int, throttled bool) {
	if !t.applies(r, follower) {
		return bytesMax, false
	}
	tokens := int(t.limiter.Tokens())
	if tokens <= 0 {
		return 0, true
	}
	return min(bytesMax, tokens), false
}

// charge subtracts the bytes that a follower has received from the limit's tokens. A first batch
// may exceed the tokens; later fetches then wait until the deficit is recovered.
func (t catchUpThrottle) charge(r *role, follower int32, bytes int) {
	if bytes <= 0 || !t.applies(r, follower) {
		return
	}
	for left := bytes; left > 0; left -= t.limiter.Burst() {
		t.limiter.ReserveN(time.Now(), min(left, t.limiter.Burst()))
	}
}
