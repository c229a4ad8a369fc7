package coordinator

import "github.com/prometheus/client_golang/prometheus"

// register publishes how much the shards here hold.
func (r *Runtime) register() {
	if r.opts.Registry == nil {
		return
	}
	gauge := func(name, help string, of func(*shard) int64) {
		r.opts.Registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "heartwood", Name: name, Help: help},
			func() (sum float64) {
				for _, s := range r.view.Load().shards {
					sum += float64(of(s))
				}
				return sum
			}))
	}
	gauge("coordinator_groups", "Groups this broker coordinates.", func(s *shard) int64 { return s.groups.Load() })
	gauge("coordinator_offsets", "Committed offsets of the groups this broker coordinates.", func(s *shard) int64 { return s.offsets.Load() })
}
