// Package opmetrics holds metrics that several controllers share.
package opmetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// LastSuccess records when each LogCluster and Topic was last reconciled without an error. An old
// value is a resource whose reconciliation keeps failing. Partitions are not recorded, as there may
// be many; controller-runtime's counters cover them.
type LastSuccess struct{ gauge *prometheus.GaugeVec }

// NewLastSuccess registers the metric with controller-runtime's registry. A process has one
// registry, so the second call fails.
func NewLastSuccess() (*LastSuccess, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_operator_reconcile_last_success_timestamp_seconds",
		Help: "Unix time at which a resource was last reconciled without an error.",
	}, []string{"controller", "namespace", "name"})
	if err := metrics.Registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &LastSuccess{gauge}, nil
}

// Record records that a controller has just reconciled a resource.
func (l *LastSuccess) Record(controller string, key types.NamespacedName) {
	l.gauge.WithLabelValues(controller, key.Namespace, key.Name).SetToCurrentTime()
}

// Forget removes the series of a deleted resource. Otherwise it would look like a resource whose
// reconciliation keeps failing.
func (l *LastSuccess) Forget(controller string, key types.NamespacedName) {
	l.gauge.DeleteLabelValues(controller, key.Namespace, key.Name)
}
