package rebalance

import "time"

// rateWindow is the period over which a Rate is smoothed. It is long because producers append in
// bursts, and each change of a leader makes clients refresh their metadata.
const rateWindow = 5 * time.Minute

// Rate is the smoothed rate at which producers append to a partition. The zero value means that the
// rate has never been measured.
type Rate struct {
	PerSecond float64       // bytes per second
	Measured  time.Duration // sum of the measured times, at most rateWindow
}

// Add returns the rate after another measurement of a number of bytes in a time > 0. Until the
// measured time reaches rateWindow, the rate is the mean of all measurements. After that, the
// weight of a measurement decreases exponentially.
func (r Rate) Add(bytes int64, in time.Duration) Rate {
	r.Measured = min(r.Measured+in, max(rateWindow, in))
	r.PerSecond += (float64(bytes)/in.Seconds() - r.PerSecond) * float64(in) / float64(r.Measured)
	r.Measured = min(r.Measured, rateWindow)
	return r
}
