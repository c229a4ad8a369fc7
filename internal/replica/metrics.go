package replica

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what goes through the partitions, by topic.
type metrics struct {
	producedBytes, producedRecords, fetchedBytes *prometheus.CounterVec
}

// traffic is one topic's counters. A partition keeps them, so that counting is an addition and no lookup.
type traffic struct {
	producedBytes, producedRecords, fetchedBytes prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "heartwood", Name: name, Help: help}, []string{"topic"})
		if registry != nil {
			registry.MustRegister(vector)
		}
		return vector
	}
	return &metrics{
		producedBytes:   counter("produced_bytes_total", "Bytes of batches appended for producers, as they came in (compressed)."),
		producedRecords: counter("produced_records_total", "Records appended for producers."),
		fetchedBytes:    counter("fetched_bytes_total", "Bytes of batches handed to consumers."),
	}
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
