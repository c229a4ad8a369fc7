package kube

import "time"

const (
	// settle is how long changes are gathered before an image is made of them: a topic's partitions
	// come one by one.
	settle = 20 * time.Millisecond
	// settleShare is how many times as long as the last image took they are gathered at least: a
	// tenth of a processor's time goes into images at most, however many partitions there are, and
	// about as much into what follows from each.
	settleShare = 9
)

// gathering says when an image is made of changes. The time counts from the first one on. To wait
// until there is none for a while would not do: when a broker of a thousand partitions goes, they
// come without a pause for seconds. The zero value works.
type gathering struct {
	begun bool
	took  time.Duration // the last image
}

// change takes one in. If it is the first since the last image, it returns how long to wait for
// others.
func (g *gathering) change() (wait time.Duration, first bool) {
	if g.begun {
		return 0, false
	}
	g.begun = true
	return max(settle, settleShare*g.took), true
}

// made takes in that an image was made, and how long that took: the next change is a first one
// again.
func (g *gathering) made(took time.Duration) { *g = gathering{took: took} }
