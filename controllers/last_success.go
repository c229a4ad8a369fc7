package controllers

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// lastSuccess tells when each LogCluster and Topic was last brought to what it asks for: an old
// value is one that fails again and again. Partitions have none, as they may be many;
// controller-runtime's counters cover them.
type lastSuccess struct{ gauge *prometheus.GaugeVec }

// newLastSuccess registers the metric with controller-runtime's registry, which is one a process; a
// second time fails.
func newLastSuccess() (*lastSuccess, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_operator_reconcile_last_success_timestamp_seconds",
		Help: "When a resource was last reconciled without an error.",
	}, []string{"controller", "namespace", "name"})
	if err := metrics.Registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &lastSuccess{gauge}, nil
}

// now notes a success, in Unix seconds of our clock.
func (l *lastSuccess) now(controller string, key types.NamespacedName) {
	l.gauge.WithLabelValues(controller, key.Namespace, key.Name).SetToCurrentTime()
}

// forget takes the series of a resource that is gone away: it would look like one that fails for
// ever.
func (l *lastSuccess) forget(controller string, key types.NamespacedName) {
	l.gauge.DeleteLabelValues(controller, key.Namespace, key.Name)
}
