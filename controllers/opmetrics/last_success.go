// Package opmetrics contains metrics that are updated by several controllers.
package opmetrics

import (
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// LastSuccess is the metric with the time of each LogCluster's and Topic's last reconciliation
// without an error. An old time shows that the resource's reconciliations keep failing. Partitions
// have no series here, because there can be many of them; controller-runtime's counters include
// their reconciliations.
type LastSuccess struct {
	gauge *prometheus.GaugeVec

	mu    sync.Mutex
	begun map[resource]bool // resources that have a series
}

// resource is a resource of a controller.
type resource struct {
	controller string
	key        types.NamespacedName
}

// NewLastSuccess registers the metric.
func NewLastSuccess(registry prometheus.Registerer) (*LastSuccess, error) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_operator_reconcile_last_success_timestamp_seconds",
		Help: "Unix time at which a resource was last reconciled without an error. Until the first " +
			"success of this process, the time of the first attempt.",
	}, []string{"controller", "namespace", "name"})
	if err := registry.Register(gauge); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &LastSuccess{gauge: gauge, begun: map[resource]bool{}}, nil
}

// Begin sets the time of a resource to now if the resource has no series yet, because a controller
// begins to reconcile it. Otherwise, if all reconciliations since the operator's start had failed,
// there would be no series that shows this. A series with the time 0 would look like failures since
// 1970.
func (l *LastSuccess) Begin(controller string, key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.begun[resource{controller, key}] {
		l.set(controller, key)
	}
}

// Record sets the time of a resource to now, because a controller has just reconciled it.
func (l *LastSuccess) Record(controller string, key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(controller, key)
}

// set sets the time of a resource to now. The caller holds mu.
func (l *LastSuccess) set(controller string, key types.NamespacedName) {
	l.begun[resource{controller, key}] = true
	l.gauge.WithLabelValues(controller, key.Namespace, key.Name).SetToCurrentTime()
}

// Forget removes the series of a deleted resource. Otherwise the old time would look like
// reconciliations that keep failing.
func (l *LastSuccess) Forget(controller string, key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.begun, resource{controller, key})
	l.gauge.DeleteLabelValues(controller, key.Namespace, key.Name)
}
