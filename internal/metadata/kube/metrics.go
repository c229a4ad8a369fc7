package kube

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

// metrics counts the store's writes.
type metrics struct {
	writes *prometheus.CounterVec // counter by result
}

func newMetrics() *metrics {
	m := &metrics{writes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "heartwood_metadata_partition_set_writes_total",
		Help: "Writes of PartitionSets by this broker, by result: written, conflict or failed. " +
			"After a conflict the change is decided again on the stored version.",
	}, []string{"result"})}
	for _, result := range []string{"written", "conflict", "failed"} {
		m.writes.WithLabelValues(result)
	}
	return m
}

// wrote counts a write of a PartitionSet.
func (m *metrics) wrote(err error) {
	result := "written"
	switch {
	case errors.Is(err, commit.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "failed"
	}
	m.writes.WithLabelValues(result).Inc()
}

// register adds the store's metrics to a registry, which may be nil.
func (s *Store) register(registry prometheus.Registerer) {
	if registry == nil {
		return
	}
	registry.MustRegister(
		s.metrics.writes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "heartwood_metadata_reachable",
			Help: "1 while the API server is reachable. At 0 the broker serves from the last metadata image.",
		}, func() float64 {
			if s.Outage(time.Now()) > 0 {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "heartwood_metadata_last_contact_timestamp_seconds",
			Help: "Unix time of the last successful renewal of this broker's Lease; 0 before the first one.",
		}, func() float64 {
			keeper := s.keeper.Load()
			if keeper == nil {
				return 0
			}
			return float64(keeper.lastRenewed().UnixMilli()) / 1000
		}),
	)
}

// Outage returns how long the API server has been unreachable, or 0 if it is reachable or this
// broker has not registered yet. It is safe for concurrent use.
func (s *Store) Outage(now time.Time) time.Duration {
	keeper := s.keeper.Load()
	if keeper == nil {
		return 0
	}
	if unreachable := now.Sub(keeper.lastRenewed()); unreachable > outageAfter {
		return unreachable
	}
	return 0
}

// Detail describes the current outage of the API server, or returns "" while the API server is
// reachable. A broker that serves from its last image remains ready. Otherwise an outage of the API
// server would become an outage of the logs.
func (s *Store) Detail() string {
	outage := s.Outage(time.Now())
	if outage == 0 {
		return ""
	}
	return fmt.Sprintf(
		"the API server has been unreachable for %s: serving from the last metadata image",
		outage.Round(time.Second),
	)
}
