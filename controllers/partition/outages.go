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

// outages measures how long partitions are without a serving leader: from when the operator
// detected that the leader had failed until its successor reported that it serves. The first
// election of a new partition is not measured, nor is an outage that began before this operator
// started. It is safe for concurrent use; the lock is a leaf.
type outages struct {
	seconds prometheus.Histogram
	mu      struct {
		sync.Mutex
		// since holds the time at which each partition became unavailable. An entry is removed when
		// the partition serves again or is deleted.
		since map[types.NamespacedName]time.Time
	}
}

// newOutages returns outages that are measured into a histogram.
func newOutages(seconds prometheus.Histogram) *outages {
	o := &outages{seconds: seconds}
	o.mu.since = map[types.NamespacedName]time.Time{}
	return o
}

// newElectionSeconds registers the histogram with controller-runtime's registry. A process has one
// registry, so the second call fails.
func newElectionSeconds() (prometheus.Histogram, error) {
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "heartwood_operator_election_seconds",
		Help: "Time that a partition was without a serving leader, from when the operator detected the " +
			"leader's failure until the next leader served.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})
	if err := metrics.Registry.Register(seconds); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return seconds, nil
}

// observe records the change of a partition's status that was written or found at the time now. A
// write that failed by compare-and-swap is not recorded: the decision is repeated from the new
// state. An outage with several elections is measured once, from its beginning.
//
// Calls for one partition do not overlap: the work queue never gives a key to two workers.
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
