package replica

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what goes through the partitions, by topic.
type metrics struct {
	producedBytes, producedRecords, fetchedBytes *prometheus.CounterVec

	isrChanges *prometheus.CounterVec // by direction
	elections  *prometheus.CounterVec // by reason
}

// Directions of a change of in-sync replicas, and reasons of an election: values of labels.
const (
	isrExpand = "expand"
	isrShrink = "shrink"

	electionStart    = "start"    // this broker came up, or the partition is new
	electionFailover = "failover" // the leader before is dead
	electionMove     = "move"     // the leader before lives: it shuts down, or another is preferred
)

// traffic is one topic's counters. A partition keeps them, so that counting is an addition and no
// lookup.
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
			"Bytes of batches appended for producers, as they came in (compressed)."),
		producedRecords: counter("produced_records_total", "Records appended for producers."),
		fetchedBytes:    counter("fetched_bytes_total", "Bytes of batches handed to consumers."),
		isrChanges: counterBy(registry, "isr_changes_total", "direction",
			"Changes of in-sync replicas that this broker made as their leader.", isrExpand,
			isrShrink),
		elections: counterBy(
			registry,
			"leader_elections_total",
			"reason",
			"Partitions that this broker began to lead: as it came up, because their leader died, or because leadership was moved here.",
			electionStart,
			electionFailover,
			electionMove,
		),
	}
}

// counterBy is a counter with one label, at 0 for each value it may have.
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

// isrChanged counts a change of in-sync replicas; one that takes some in and drops others is both.
func (m *metrics) isrChanged(before, after []int32) {
	count := func(direction string, from, to []int32) {
		if slices.ContainsFunc(to, func(id int32) bool { return !slices.Contains(from, id) }) {
			m.isrChanges.WithLabelValues(direction).Inc()
		}
	}
	count(isrExpand, before, after)
	count(isrShrink, after, before)
}

// of returns a topic's counters, 0 if they are new.
func (m *metrics) of(topic string) traffic {
	return traffic{
		producedBytes:   m.producedBytes.WithLabelValues(topic),
		producedRecords: m.producedRecords.WithLabelValues(topic),
		fetchedBytes:    m.fetchedBytes.WithLabelValues(topic),
	}
}

// forget drops a topic's series: it has no partition here any more.
func (m *metrics) forget(topic string) {
	m.producedBytes.DeleteLabelValues(topic)
	m.producedRecords.DeleteLabelValues(topic)
	m.fetchedBytes.DeleteLabelValues(topic)
}

// forgetTopics drops the series of the topics that were here and are no more.
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
