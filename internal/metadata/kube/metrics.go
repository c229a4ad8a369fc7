package kube

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// register adds the store's metrics to a registry, which may be nil.
func (s *Store) register(registry prometheus.Registerer) {
	if registry == nil {
		return
	}
	registry.MustRegister(
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

// Detail describes the present outage of the API server, or returns "" while the API server is
// reachable. A broker that serves from its last image remains ready: otherwise an outage of the API
// server would be an outage of the logs.
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
