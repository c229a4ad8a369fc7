package replica

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics contains the counters of a Set.
type metrics struct {
	producedBytes, producedRecords, fetchedBytes *prometheus.CounterVec // counters by topic

	isrChanges *prometheus.CounterVec // counter by direction
	elections  *prometheus.CounterVec // counter by reason

	verifications      *prometheus.CounterVec // counter by result
	verificationLength prometheus.Histogram   // duration of verifications in seconds
}

// These are label values: directions of an ISR change, and reasons for an election.
const (
	isrExpand = "expand"
	isrShrink = "shrink"

	electionStart    = "start"    // this broker started, or the partition is new
	electionFailover = "failover" // the previous leader was down
	// the previous leader was up: it was shutting down, or another broker is the preferred leader
	electionMove = "move"
)

// These are label values: the results of verifying one partition of a transaction.
const (
	verificationSuccess = "success"
	// the transaction does not include the partition, or the producer is fenced
	verificationRefused = "refused"
	// the producer's previous transaction is not completed yet
	verificationConcurrent = "concurrent"
	// the coordinator could not answer
	verificationUnavailable = "unavailable"
)

// traffic contains one topic's counters. Each partition has its own traffic value, so counting
// needs no lookup.
type traffic struct {
	producedBytes, producedRecords, fetchedBytes prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "heartwood",
			Name: name, Help: help}, []string{"topic"})
		if registry != nil {
			registry.MustRegister(vector)
		}
		return vector
	}
	return &metrics{
		producedBytes: counter("produced_bytes_total",
			"Bytes of batches appended for producers, as received (compressed)."),
		producedRecords: counter("produced_records_total", "Records appended for producers."),
		fetchedBytes:    counter("fetched_bytes_total", "Bytes of batches returned to consumers."),
		isrChanges: counterBy(registry, "isr_changes_total", "direction",
			"ISR changes that this broker made as the leader.", isrExpand, isrShrink),
		elections: counterBy(registry, "leader_elections_total", "reason",
			"Leader epochs that this broker began: because it started, because the previous "+
				"leader was down, or because the operator moved the leadership to this broker.",
			electionStart, electionFailover, electionMove),
		verifications: counterBy(registry, "transaction_verifications_total", "result",
			"Partitions of transactions about which this broker asked the transaction coordinator "+
				"before it appended the first batch.", verificationSuccess, verificationRefused,
			verificationConcurrent, verificationUnavailable),
		verificationLength: verificationSeconds(registry),
	}
}

func verificationSeconds(registry prometheus.Registerer) prometheus.Histogram {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "heartwood",
		Name: "transaction_verification_seconds",
		Help: "Time until the transaction coordinator has answered about the partitions of a " +
			"produce request.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
	if registry != nil {
		registry.MustRegister(histogram)
	}
	return histogram
}

// verified updates the metrics after a transaction coordinator has answered a verification. errs
// contains one error for each partition.
func (m *metrics) verified(errs []error, took time.Duration) {
	m.verificationLength.Observe(took.Seconds())
	for _, err := range errs {
		result := verificationRefused
		switch {
		case err == nil:
			result = verificationSuccess
		case errors.Is(err, ErrConcurrentTransactions):
			result = verificationConcurrent
		case errors.Is(err, ErrNotEnoughReplicas):
			result = verificationUnavailable
		}
		m.verifications.WithLabelValues(result).Inc()
	}
}

// counterBy returns a counter with one label. It creates a series for each value of the label,
// which starts at 0.
func counterBy(registry prometheus.Registerer, name, label, help string,
	values ...string) *prometheus.CounterVec {
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "heartwood", Name: name,
		Help: help}, []string{label})
	if registry != nil {
		registry.MustRegister(vector)
	}
	for _, value := range values {
		vector.WithLabelValues(value)
	}
	return vector
}

// isrChanged updates the counters of ISR changes. A change that adds some replicas and removes
// others increments both counters.
func (m *metrics) isrChanged(before, after []int32) {
	count := func(direction string, from, to []int32) {
		if slices.ContainsFunc(to, func(id int32) bool { return !slices.Contains(from, id) }) {
			m.isrChanges.WithLabelValues(direction).Inc()
		}
	}
	count(isrExpand, before, after)
	count(isrShrink, after, before)
}

// of returns a topic's counters, which start at 0.
func (m *metrics) of(topic string) traffic {
	return traffic{
		producedBytes:   m.producedBytes.WithLabelValues(topic),
		producedRecords: m.producedRecords.WithLabelValues(topic),
		fetchedBytes:    m.fetchedBytes.WithLabelValues(topic),
	}
}

// forget deletes a topic's series.
func (m *metrics) forget(topic string) {
	m.producedBytes.DeleteLabelValues(topic)
	m.producedRecords.DeleteLabelValues(topic)
	m.fetchedBytes.DeleteLabelValues(topic)
}

// forgetTopics deletes the series of the topics that no longer have a partition on this
// broker.
func (m *metrics) forgetTopics(old, now map[PartitionID]*partition) {
	here := map[string]bool{}
	for id := range now {
		here[id.Topic] = true
	}
	for id := range old {
		if !here[id.Topic] {
			m.forget(id.Topic)
		}
	}
}
