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
			Help: "1 while the API server answers; 0: what is led and followed is as in the last image, until it is back.",
		}, func() float64 {
			if s.Outage(time.Now()) > 0 {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "heartwood_metadata_last_contact_timestamp_seconds",
			Help: "When the API server last took a renewal of this broker's Lease; 0 before the first.",
		}, func() float64 {
			keeper := s.keeper.Load()
			if keeper == nil {
				return 0
			}
			return float64(keeper.lastRenewed().UnixMilli()) / 1000
		}),
	)
}

// Outage returns for how long the API server has been out of reach; 0: it is not, as far as we
// know, or this broker never was registered. Any goroutine may ask.
func (s *Store) Outage(now time.Time) time.Duration {
	keeper := s.keeper.Load()
	if keeper == nil {
		return 0
	}
	if away := now.Sub(keeper.lastRenewed()); away > outageAfter {
		return away
	}
	return 0
}

// Detail says in words how it is with the API server; "" when all is well. A broker that serves
// from its last image is ready all the same: to take it out of service would make an outage of the
// API server one of the logs.
func (s *Store) Detail() string {
	away := s.Outage(time.Now())
	if away == 0 {
		return ""
	}
	return fmt.Sprintf("the API server has not answered for %s: serving from the last image",
		away.Round(time.Second))
}
