package kube

import (
	"cmp"
	"time"

	"heartwood.dev/heartwood/internal/lease"
	"heartwood.dev/heartwood/internal/metadata"
)

// times limit the requests of a store and the validity of its Lease. Only tests set them: a Lease
// must not expire because the machine is slow, unless the test is about that.
type times struct {
	lease     time.Duration // lease.Duration
	request   time.Duration // requestTimeout
	changeISR time.Duration // metadata.ChangeISRTimeout
	serving   time.Duration // servingTimeout
}

// withDefaults returns the times with the values of production where t has none.
func (t times) withDefaults() times {
	return times{lease: cmp.Or(t.lease, lease.Duration), request: cmp.Or(t.request, requestTimeout),
		changeISR: cmp.Or(t.changeISR, metadata.ChangeISRTimeout),
		serving:   cmp.Or(t.serving, servingTimeout)}
}
