package quota

import (
	"time"
)

const (
	// usersMax limits the number of users whose buckets are in memory, with about 200 bytes each.
	usersMax = 10_000
	// forgetInterval is the minimum time between two scans for users with full buckets.
	forgetInterval = time.Second
)

// Users contains the buckets of all users. The zero value is ready for use. It is not safe for
// concurrent use.
type Users struct {
	buckets map[string]*[Kinds]bucket
	scanned time.Time // time of the last call of forgetFull
}

// Charge charges units of a kind to a user, and returns how long to throttle the user. It returns 0
// if the kind is not limited. A negative number of units undoes an earlier charge.
func (u *Users) Charge(user string, limits *Limits, kind Kind, units float64,
	now time.Time) time.Duration {
	b := u.bucket(user, limits, kind, now)
	if b == nil {
		return 0
	}
	b.charge(kind, units)
	return throttle(kind, b)
}

// Debt returns how long to throttle a user for earlier charges, or 0 if the user is within the
// quota.
func (u *Users) Debt(user string, limits *Limits, kind Kind, now time.Time) time.Duration {
	if b := u.bucket(user, limits, kind, now); b != nil {
		return throttle(kind, b)
	}
	return 0
}

// Capacity returns the number of units of a kind that a user may use at once after a pause. The
// kind must be limited.
func (l *Limits) Capacity(kind Kind) float64 { return capacity(l[kind]) }

func throttle(kind Kind, b *bucket) time.Duration {
	if kind == Request {
		return min(b.debt(), RequestThrottleMax)
	}
	return b.debt()
}

// bucket returns a user's refilled bucket, or nil if the kind is not limited.
func (u *Users) bucket(user string, limits *Limits, kind Kind, now time.Time) *bucket {
	if limits[kind] <= 0 {
		return nil
	}
	all := u.buckets[user]
	if all == nil {
		u.makeRoom(now)
		all = &[Kinds]bucket{}
		u.buckets[user] = all
	}
	b := &all[kind]
	b.refill(limits[kind], now)
	return b
}

// makeRoom forgets users if there are too many. It forgets users whose buckets are full or, if
// there are none, any user, whose debt is then forgiven. It scans all users at most once per
// forgetInterval, so that many new users do not consume too much CPU time.
func (u *Users) makeRoom(now time.Time) {
	if u.buckets == nil {
		u.buckets = map[string]*[Kinds]bucket{}
	}
	if len(u.buckets) < usersMax {
		return
	}
	if now.Sub(u.scanned) >= forgetInterval {
		u.scanned = now
		u.forgetFull(now)
	}
	for user := range u.buckets {
		if len(u.buckets) < usersMax {
			return
		}
		delete(u.buckets, user)
	}
}

func (u *Users) forgetFull(now time.Time) {
	for user, all := range u.buckets {
		full := true
		for kind := range all {
			full = full && all[kind].isFull(now)
		}
		if full {
			delete(u.buckets, user)
		}
	}
}
