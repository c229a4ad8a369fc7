package kube

import (
	"cmp"
	"time"

	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
)

// times contains the timeouts of a store's requests, and the duration of its Lease. Only tests set
// them, so that a Lease does not expire on a slow machine unless the test is about expiry.
type times struct {
	lease     time.Duration // replaces lease.Duration
	request   time.Duration // replaces requestTimeout
	changeISR time.Duration // replaces metadata.ChangeISRTimeout
	serving   time.Duration // replaces servingTimeout
}

// withDefaults returns the times, with production values in place of zero times.
func (t times) withDefaults() times {
	return times{lease: cmp.Or(t.lease, lease.Duration), request: cmp.Or(t.request, requestTimeout),
		changeISR: cmp.Or(t.changeISR, metadata.ChangeISRTimeout),
		serving:   cmp.Or(t.serving, servingTimeout)}
}
