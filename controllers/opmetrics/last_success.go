// Package opmetrics contains the metrics that several controllers update.
package opmetrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// LastSuccess is the metric of the time at which each LogCluster and Topic was last reconciled
// without an error. An old time shows that reconciliations of the resource keep failing. Partitions
// have no series, because there may be many; the counters of controller-runtime include them.
type LastSuccess struct{ gauge *prometheus.GaugeVec }

// NewLastSuccess registers the metric with controller-runtime's registry. A second call in the same
// process fails, because the process has only one such registry.
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

// Record sets the time of a resource to now: a controller has just reconciled it.
func (l *LastSuccess) Record(controller string, key types.NamespacedName) {
	l.gauge.WithLabelValues(controller, key.Namespace, key.Name).SetToCurrentTime()
}

// Forget removes the series of a deleted resource. Otherwise the old time would look like
// reconciliations that keep failing.
func (l *LastSuccess) Forget(controller string, key types.NamespacedName) {
	l.gauge.DeleteLabelValues(controller, key.Namespace, key.Name)
}
