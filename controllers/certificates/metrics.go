package certificates

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics exports the expiry of certificates. LogUsers have no series, because there can be many of
// them; their status contains the expiry.
type Metrics struct{ expiry *prometheus.GaugeVec }

// NewMetrics registers the metric with controller-runtime's registry. A second call in the same
// process fails.
func NewMetrics() (*Metrics, error) {
	expiry := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which a certificate of a LogCluster expires, by its name: " +
			"ca, users-ca, peer-ca, listener.<name> or peer.<broker>.",
	}, []string{"namespace", "cluster", "certificate"})
	if err := metrics.Registry.Register(expiry); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return &Metrics{expiry}, nil
}

// set replaces the series of a LogCluster.
func (m *Metrics) set(cluster types.NamespacedName, expiries map[string]time.Time) {
	m.forget(cluster)
	for name, expiry := range expiries {
		m.expiry.WithLabelValues(cluster.Namespace, cluster.Name, name).
			Set(float64(expiry.Unix()))
	}
}

// forget removes the series of a LogCluster.
func (m *Metrics) forget(cluster types.NamespacedName) {
	m.expiry.DeletePartialMatch(prometheus.Labels{"namespace": cluster.Namespace,
		"cluster": cluster.Name})
}
