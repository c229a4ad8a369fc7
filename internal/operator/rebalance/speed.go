package rebalance

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// speedInterval is the minimum time over which a run's speed is measured. Brokers report once per
// interval, so a shorter time may show no progress.
const speedInterval = 2 * interval

// etaMax is the longest remaining time that is reported. After the first bytes of a run, the speed
// can be so low that the remaining time does not fit into a Duration.
const etaMax = 30 * 24 * time.Hour

// Speed is the speed at which a run copies.
type Speed struct {
	Rate Rate // zero if nothing is being copied
	// At is the time of the last measurement, and Bytes is BytesDone at that time.
	At    time.Time
	Bytes int64
}

// after returns the speed after further bytes have been copied. While nothing is copied, for
// example during a wait for the window, the speed is unknown; its measurement then starts again.
func (s Speed) after(now time.Time, bytes int64) Speed {
	since := now.Sub(s.At)
	switch {
	case s.At.IsZero():
		return Speed{At: now, Bytes: bytes}
	case since < speedInterval:
		return s
	case bytes <= s.Bytes:
		return Speed{At: now, Bytes: bytes}
	}
	return Speed{Rate: s.Rate.Add(bytes-s.Bytes, since), At: now, Bytes: bytes}
}

// estimate measures the speed of the run, and estimates its end.
func (d *decider) estimate() {
	run := d.run()
	run.EstimatedCompletionTime = nil
	if len(run.Moving) == 0 || !run.Phase.Active() {
		run.Speed = Speed{}
		return
	}
	run.Speed = run.Speed.after(d.Now, run.BytesDone)
	left := run.BytesTotal - run.BytesDone
	if run.Phase != v1alpha1.RebalanceMoving || left <= 0 || run.Speed.Rate.PerSecond <= 0 {
		return
	}
	seconds := float64(left) / run.Speed.Rate.PerSecond
	if seconds > etaMax.Seconds() {
		return
	}
	remaining := time.Duration(seconds * float64(time.Second))
	run.EstimatedCompletionTime = new(metav1.NewTime(d.Now.Add(remaining).Truncate(interval)))
}
