package controllers

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// outages measures how long partitions are without a leader that serves: from when the operator saw that one could not go on
// until its successor said that it serves. A new partition's first leader does not count, and nor does what began before this
// operator.
type outages struct {
	seconds prometheus.Histogram
	// began is when, by partition. Only the partition controller's Reconcile uses it, of which one runs at a time.
	began map[types.NamespacedName]time.Time
}

func newOutages() (*outages, error) {
	seconds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "heartwood_operator_election_seconds",
		Help:    "How long a partition was without a serving leader, from when the operator saw its leader go until the next one served.",
		Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})
	if err := metrics.Registry.Register(seconds); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &outages{seconds, map[types.NamespacedName]time.Time{}}, nil
}

// changed takes in that a partition's status was written.
func (o *outages) changed(key types.NamespacedName, before, after v1alpha1.PartitionStatus, now time.Time) {
	served := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionReady)
	ready := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Reason == v1alpha1.ReasonRetained:
		o.forget(key) // nobody waits for a leader
	case ready.Status == "True":
		if began, ok := o.began[key]; ok {
			o.seconds.Observe(now.Sub(began).Seconds())
			o.forget(key)
		}
	case served:
		o.began[key] = now
	}
}

func (o *outages) forget(key types.NamespacedName) { delete(o.began, key) }
