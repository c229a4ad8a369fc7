package partition

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// outages measures how long partitions are without a serving leader: from the time at which the
// operator detects a leader's failure until the next leader reports that it serves. It does not
// measure the first election of a new partition, or an outage that began before this operator
// started. It is safe for concurrent use.
type outages struct {
	seconds prometheus.Histogram
	mu      struct {
		sync.Mutex
		// since contains the time at which each unavailable partition became unavailable. The entry
		// is removed when the partition serves again or is deleted.
		since map[types.NamespacedName]time.Time
	}
}

// newOutages returns an outages that adds its measurements to a histogram.
func newOutages(seconds prometheus.Histogram) *outages {
	o := &outages{seconds: seconds}
	o.mu.since = map[types.NamespacedName]time.Time{}
	return o
}

// newElectionSeconds registers the histogram with controller-runtime's registry. A second call in
// the same process fails, because the process has only one such registry.
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

// observe processes a change of a partition's status at the time now. The change was written by the
// operator or found in the cache. The caller must not pass a change whose compare-and-swap failed;
// the operator repeats such a decision from the new state. An outage with several elections is
// measured once, from its beginning.
//
// Calls for one partition do not overlap: the work queue never passes the same key to two workers
// at the same time.
func (o *outages) observe(key types.NamespacedName, before, after v1alpha1.PartitionStatus,
	now time.Time) {
	served := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady)
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case ready == nil || ready.Reason == v1alpha1.ReasonRetained:
		delete(o.mu.since, key) // a partition without a Topic needs no leader
	case ready.Status == metav1.ConditionTrue:
		if since, ok := o.mu.since[key]; ok {
			o.seconds.Observe(now.Sub(since).Seconds())
			delete(o.mu.since, key)
		}
	case served:
		o.mu.since[key] = now
	}
}

// forget removes a deleted partition.
func (o *outages) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.since, key)
}
