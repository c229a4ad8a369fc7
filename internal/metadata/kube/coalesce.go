package kube

import "time"

const (
	// minCoalesceDelay is how long changes are collected at least before an image is built from
	// them: a topic's partitions arrive one by one.
	minCoalesceDelay = 20 * time.Millisecond
	// coalesceFactor limits the share of time in which images are built: changes are collected for
	// at least coalesceFactor times the duration of the last build. So building images takes at
	// most a tenth of a CPU's time, however many partitions there are.
	coalesceFactor = 9
)

// coalescer decides when an image is built from changes. The delay starts at the first change. It
// must not start again at each change: when a broker of a thousand partitions fails, changes arrive
// without a pause for seconds. The zero value is ready for use.
type coalescer struct {
	pending   bool
	lastBuild time.Duration
}

// change records a change. For the first one since the last build it returns how long to collect
// further ones.
func (c *coalescer) change() (delay time.Duration, first bool) {
	if c.pending {
		return 0, false
	}
	c.pending = true
	return max(minCoalesceDelay, coalesceFactor*c.lastBuild), true
}

// built records that an image was built, and how long that took.
func (c *coalescer) built(took time.Duration) { *c = coalescer{lastBuild: took} }
