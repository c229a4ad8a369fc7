package coordinator

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
)

// txnMetrics contains the metrics of transactions that all shards of a broker share.
type txnMetrics struct {
	appends             prometheus.Counter
	ended, markerRetry  *prometheus.CounterVec
	pending             prometheus.Gauge
	load, markerSeconds prometheus.Histogram
}

func newTxnMetrics() txnMetrics {
	const space, part = "heartwood", "coordinator"
	return txnMetrics{
		appends: prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Subsystem: part,
			Name: "transaction_appends_total",
			Help: "Batches appended to __transaction_state by transaction coordinators."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: part,
			Name: "transactions_ended_total",
			Help: "Transactions whose outcome was decided. Result timeout and fenced: the " +
				"coordinator aborted the transaction because it was open for too long, or because " +
				"a new instance of the producer or an administrator ended it."},
			[]string{"result"}),
		markerRetry: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space,
			Subsystem: part, Name: "marker_retries_total",
			Help: "Attempts to write a transaction marker that failed and are repeated, by reason."},
			[]string{"error"}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Subsystem: part,
			Name: "markers_pending",
			Help: "Transaction markers that their partition has not written yet."}),
		load: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Subsystem: part,
			Name: "transactions_load_seconds",
			Help: "Time to load a partition of __transaction_state after a start or a failover, " +
				"until its transactional ids are served.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		markerSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space,
			Subsystem: part, Name: "marker_seconds",
			Help:    "Time from the decision of a transaction until a broker has written its markers.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9)}),
	}
}

func (m txnMetrics) register(to prometheus.Registerer, t *Transactions) {
	to.MustRegister(m.appends, m.ended, m.markerRetry, m.pending, m.load, m.markerSeconds,
		(*txnCollector)(t))
	for _, result := range []string{"commit", "abort", "timeout", "fenced"} {
		m.ended.WithLabelValues(result)
	}
	for _, reason := range retryReasons {
		m.markerRetry.WithLabelValues(reason.name)
	}
	m.markerRetry.WithLabelValues(retryOther)
}

// count adds the transactions that have ended between two states of the statistics to the metrics.
func (m txnMetrics) count(before, now transaction.Ended) {
	if before == now {
		return
	}
	m.ended.WithLabelValues("commit").Add(float64(now.Committed - before.Committed))
	m.ended.WithLabelValues("abort").Add(float64(now.Aborted - before.Aborted))
	m.ended.WithLabelValues("timeout").Add(float64(now.TimedOut - before.TimedOut))
	m.ended.WithLabelValues("fenced").Add(float64(now.Fenced - before.Fenced))
}

// retryOther is the label for an error that is not in retryReasons.
const retryOther = "other"

// retryReasons lists the reasons why a marker is repeated.
var retryReasons = []struct {
	err  error
	name string
}{
	{errNoLeader, "no_leader"}, {replica.ErrNotLeader, "no_leader"},
	{replica.ErrUnknownPartition, "no_leader"},
	{replica.ErrTimeout, "timeout"}, {replica.ErrNotEnoughReplicas, "min_isr"},
	{replica.ErrNotEnoughReplicasAfterAppend, "min_isr"},
	{logstore.ErrCoordinatorFenced, "fenced"}, {logstore.ErrStorage, "storage"},
}

// retry counts a failed attempt to write a marker.
func (m txnMetrics) retry(err error) {
	name := retryOther
	for _, known := range retryReasons {
		if errors.Is(err, known.err) {
			name = known.name
			break
		}
	}
	m.markerRetry.WithLabelValues(name).Inc()
}

// txnCollector exports the number of transactional ids in each phase. It implements
// prometheus.Collector.
type txnCollector Transactions

var txnDesc = prometheus.NewDesc("heartwood_coordinator_transactions",
	"Transactional ids that this broker coordinates, by state. Updated every five seconds.",
	[]string{"state"}, nil)

// Describe implements prometheus.Collector.
func (*txnCollector) Describe(to chan<- *prometheus.Desc) { to <- txnDesc }

// Collect implements prometheus.Collector.
func (c *txnCollector) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{}
	for _, name := range transaction.Phases() {
		counts[name] = 0
	}
	c.mu.Lock()
	for s := range c.loaded {
		if phases := s.phases.Load(); phases != nil {
			for name, n := range *phases {
				counts[name] += n
			}
		}
	}
	c.mu.Unlock()
	for name, n := range counts {
		to <- prometheus.MustNewConstMetric(txnDesc, prometheus.GaugeValue, float64(n), name)
	}
}
