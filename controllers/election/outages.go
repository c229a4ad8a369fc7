package election

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// outages measures how long a set's partitions have no serving leader. An outage begins when the
// operator detects a leader's failure, and ends when the next leader reports that it serves.
// outages does not measure the first election of a new partition, or an outage that began before
// this operator started.
type outages struct {
	served map[partitionset.Key]bool      // partitions that served at their last observation
	since  map[partitionset.Key]time.Time // start time of each unavailable partition's outage
}

// newElectionSeconds registers the histogram with controller-runtime's registry. A second call in
// the same process fails, because a process has only one registry.
func newElectionSeconds() (prometheus.Histogram, error) {
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "heartwood_operator_election_seconds",
		Help: "Time for which a partition was without a serving leader: from the operator's detection of the " +
			"leader's failure until the next leader serves.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})
	if err := metrics.Registry.Register(seconds); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return seconds, nil
}

// observe processes a decision at the time now. The caller must have written the decision, unless
// it changes nothing. It must not pass a decision whose write has failed. An outage with several
// elections is measured once, from its beginning.
func (o outages) observe(d partitionset.Decided, now time.Time, seconds prometheus.Observer) {
	switch {
	case d.Retired: // a partition without a Topic needs no leader
		o.forget(d.Key)
	case d.After.Serves():
		if since, ok := o.since[d.Key]; ok {
			seconds.Observe(now.Sub(since).Seconds())
			delete(o.since, d.Key)
		}
		o.served[d.Key] = true
	case d.Before.Serves(), o.served[d.Key]:
		o.since[d.Key] = now
		delete(o.served, d.Key)
	}
}

// forget removes a partition.
func (o outages) forget(key partitionset.Key) {
	delete(o.served, key)
	delete(o.since, key)
}
