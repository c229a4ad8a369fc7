package logstore

import "time"

// outageInterval is how long after the beginning of one outage the next is told at the earliest. On a disk that is just about
// full small batches pass and large ones fail, which is an outage every few milliseconds.
const outageInterval = time.Minute

// outage follows work that fails and is tried again, so that a person hears when that begins and when it ends, and not of every
// failure in between: on a full disk there are thousands a second. The zero value is work that goes well. It is pure; its owner
// says what it guards it with, and logs without holding that.
type outage struct {
	open   bool      // its beginning was told, its end not yet
	told   time.Time // when a beginning was told last
	failed int       // failures since then
}

// fail counts a failure, and tells whether it is the beginning of an outage that is to be told.
func (o *outage) fail(now time.Time) (begins bool) {
	if !o.open && (o.told.IsZero() || now.Sub(o.told) >= outageInterval) {
		*o = outage{open: true, told: now}
		begins = true
	}
	o.failed++
	return begins
}

// succeed tells whether that is the end of an outage whose beginning was told, and how many failures there were since.
func (o *outage) succeed() (failed int, ends bool) {
	if !o.open {
		return 0, false
	}
	o.open = false
	return o.failed, true
}
