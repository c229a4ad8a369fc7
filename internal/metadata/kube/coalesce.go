package kube

import "time"

const (
	// minCoalesceDelay is the minimum time for which changes are collected before an image is built.
	// The watch delivers a new topic's partitions one by one; the delay makes them appear in one
	// image.
	minCoalesceDelay = 20 * time.Millisecond
	// coalesceFactor limits the share of time spent on building images: changes are collected for at
	// least coalesceFactor times the duration of the last build. So building images uses at most a
	// tenth of a CPU, however many partitions there are.
	coalesceFactor = 9
)

// coalescer decides when an image is built from collected changes: after a delay that starts at the
// first change. Later changes do not restart the delay. When a broker of a thousand partitions
// fails, changes arrive without a pause for seconds. If each change restarted the delay, no image
// would be built in that time. The zero value is ready for use.
type coalescer struct {
	pending   bool
	lastBuild time.Duration
}

// change must be called when a change has arrived. first is true if it is the first change since
// the last build; delay is then the time for which to collect further changes.
func (c *coalescer) change() (delay time.Duration, first bool) {
	if c.pending {
		return 0, false
	}
	c.pending = true
	return max(minCoalesceDelay, coalesceFactor*c.lastBuild), true
}

// built must be called after an image has been built, with the duration of the build.
func (c *coalescer) built(took time.Duration) { *c = coalescer{lastBuild: took} }
