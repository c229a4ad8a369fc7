package coordinator

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics contains the counters and the histogram that all shards of a broker share.
type metrics struct {
	committed, expired, appends prometheus.Counter
	load                        prometheus.Histogram
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "heartwood",
			Subsystem: "coordinator", Name: name, Help: help})
	}
	return metrics{
		committed: counter("commits_total", "Partition offsets that groups have committed."),
		expired: counter("expired_offsets_total",
			"Committed offsets that were deleted because they expired or their topic was deleted."),
		appends: counter("appends_total",
			"Batches appended by group coordinators. A batch may contain commits of several groups."),
		load: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "heartwood", Subsystem: "coordinator", Name: "load_seconds",
			Help: "Time to load a partition of __consumer_offsets after a start or a failover, " +
				"until its groups are served.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
	}
}

func (m metrics) register(to prometheus.Registerer, g *Groups) {
	to.MustRegister(m.committed, m.expired, m.appends, m.load, (*groupCollector)(g),
		prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "heartwood", Name: "coordinator_offsets",
				Help: "Committed offsets of the groups that this broker coordinates."},
			func() (sum float64) {
				g.eachLoaded(func(s *groupShard) { sum += float64(s.offsets.Load()) })
				return sum
			}))
}

func (g *Groups) eachLoaded(f func(*groupShard)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for s := range g.loaded {
		f(s)
	}
}

// groupCollector exports the number of groups in each state. It implements prometheus.Collector.
type groupCollector Groups

var groupsDesc = prometheus.NewDesc("heartwood_coordinator_groups",
	"Groups that this broker coordinates, by state. Updated every five seconds.",
	[]string{"state"}, nil)

// groupStates lists the states that Collect always exports, even if no group is in the state.
var groupStates = []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Assigning",
	"Reconciling", "Stable"}

// Describe implements prometheus.Collector.
func (*groupCollector) Describe(to chan<- *prometheus.Desc) { to <- groupsDesc }

// Collect implements prometheus.Collector.
func (c *groupCollector) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, name := range groupStates {
		counts[name] = 0
	}
	(*Groups)(c).eachLoaded(func(s *groupShard) {
		if phases := s.phases.Load(); phases != nil {
			for name, n := range *phases {
				counts[name] += n
			}
		}
	})
	for name, n := range counts {
		to <- prometheus.MustNewConstMetric(groupsDesc, prometheus.GaugeValue, float64(n), name)
	}
}
