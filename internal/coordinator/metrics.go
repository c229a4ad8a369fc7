package coordinator

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// countInterval is how often groups are counted by their state.
const countInterval = 5 * time.Second

// metrics are of all shards of a broker.
type metrics struct {
	committed, expired, appends prometheus.Counter
	load                        prometheus.Histogram
}

func newMetrics(r *Runtime) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "heartwood",
			Subsystem: "coordinator", Name: name, Help: help})
	}
	m := metrics{
		committed: counter("commits_total", "Offsets of partitions that groups committed."),
		expired: counter("expired_offsets_total",
			"Committed offsets that were forgotten: too old, or of a topic that was deleted."),
		appends: counter("appends_total",
			"Batches appended for groups; one may hold the commits of many."),
		load: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "heartwood", Subsystem: "coordinator", Name: "load_seconds",
			Help:    "Time to read a partition of groups, after a start or a failover, until it is served.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
	if r.opts.Registry != nil {
		r.opts.Registry.MustRegister(m.committed, m.expired, m.appends, m.load, (*shards)(r),
			prometheus.NewGaugeFunc(
				prometheus.GaugeOpts{Namespace: "heartwood", Name: "coordinator_offsets",
					Help: "Committed offsets of the groups this broker coordinates."},
				func() (sum float64) {
					for _, s := range r.view.Load().shards {
						sum += float64(s.offsets.Load())
					}
					return sum
				}))
	}
	return m
}

// measure tells the metrics what has changed.
func (s *shard) measure() {
	s.offsets.Store(int64(s.state.Offsets()))
	now := s.state.Expired()
	s.runtime.metrics.expired.Add(float64(now - s.expired))
	s.expired = now
}

// countPhases counts groups by their state. It looks at all of them, so it is done now and then,
// not with each change.
func (s *shard) countPhases() {
	counts := map[string]int{}
	s.state.CountPhases(counts)
	s.phases.Store(&counts)
}

// shards is a Runtime as a prometheus.Collector of the groups in each state.
type shards Runtime

var groupsDesc = prometheus.NewDesc("heartwood_coordinator_groups",
	"Groups this broker coordinates, by their state, counted every five seconds.",
	[]string{"state"}, nil)

// statesShown are there also when no group is in them.
var statesShown = []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Assigning",
	"Reconciling", "Stable"}

// Describe implements prometheus.Collector.
func (*shards) Describe(to chan<- *prometheus.Desc) { to <- groupsDesc }

// Collect implements prometheus.Collector.
func (r *shards) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, state := range statesShown {
		counts[state] = 0
	}
	for _, s := range r.view.Load().shards {
		if of := s.phases.Load(); of != nil {
			for state, n := range *of {
				counts[state] += n
			}
		}
	}
	for state, n := range counts {
		to <- prometheus.MustNewConstMetric(groupsDesc, prometheus.GaugeValue, float64(n), state)
	}
}
