package controllers

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

// outages measures how long partitions are without a leader that serves: from when the operator saw
// that one could not go on until its successor said that it serves. A new partition's first leader
// does not count, and nor does what began before this operator.
type outages struct {
	seconds prometheus.Histogram
	mu      struct {
		sync.Mutex
		// began is when a partition served no more; it has an entry until it serves again, or
		// nobody waits for it.
		began map[types.NamespacedName]time.Time
	}
}

// measureOutages measures into a histogram that the caller registers.
func measureOutages(seconds prometheus.Histogram) *outages {
	o := &outages{seconds: seconds}
	o.mu.began = map[types.NamespacedName]time.Time{}
	return o
}

// newOutages registers the histogram with controller-runtime's registry, which is one a process; a
// second time fails.
func newOutages() (*outages, error) {
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "heartwood_operator_election_seconds",
		Help:    "How long a partition was without a serving leader, from when the operator saw its leader go until the next one served.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})
	if err := metrics.Registry.Register(seconds); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return measureOutages(seconds), nil
}

// changed takes in that a partition's status was written, or found to be as it should, at the time
// now. A decision that lost the compare-and-swap does not count: it is made again from what won. An
// outage that goes through several elections is one, from its first moment.
//
// Elections of several partitions run at once, of one partition never: the queue sees to it, so its
// calls come in order.
func (o *outages) changed(key types.NamespacedName, before, after v1alpha1.PartitionStatus,
	now time.Time) {
	served := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady)
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case ready == nil || ready.Reason == v1alpha1.ReasonRetained:
		delete(o.mu.began, key) // nobody waits for a leader
	case ready.Status == metav1.ConditionTrue:
		if began, ok := o.mu.began[key]; ok {
			o.seconds.Observe(now.Sub(began).Seconds())
			delete(o.mu.began, key)
		}
	case served:
		o.mu.began[key] = now
	}
}

// forget takes in that a partition is gone.
func (o *outages) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.began, key)
}
