package scrub

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	checkedDesc = prometheus.NewDesc("heartwood_scrub_checked_bytes_total",
		"Bytes at rest that the scrub has read and checked.", nil, nil)
	sinceDesc = prometheus.NewDesc("heartwood_scrub_checked_since_timestamp_seconds",
		"Begin of the last complete round of the scrub: everything at rest was checked after it; "+
			"absent before the end of the first round.", nil, nil)
	foundDesc = prometheus.NewDesc("heartwood_scrub_damage_found_total",
		"Segments, and groups of other files, in which the scrub has found damage.", nil, nil)
	repairedDesc = prometheus.NewDesc("heartwood_scrub_repaired_total",
		"Damaged files that were replaced by correct ones: computed from their segments, read from "+
			"another replica, or written again from memory.", nil, nil)
	damagedDesc = prometheus.NewDesc("heartwood_scrub_damaged_segments",
		"Segments, and groups of other files, of a partition in which the last check has found "+
			"damage; topic is empty for the files of the data directory. Absent without damage.",
		[]string{"topic", "partition"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Scrubber) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{checkedDesc, sinceDesc, foundDesc, repairedDesc,
		damagedDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (s *Scrubber) Collect(metrics chan<- prometheus.Metric) {
	s.mu.Lock()
	state, found := s.state, s.found
	s.mu.Unlock()
	send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64,
		labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	send(checkedDesc, prometheus.CounterValue, float64(s.checked.Load()))
	send(repairedDesc, prometheus.CounterValue, float64(s.repaired.Load()))
	send(foundDesc, prometheus.CounterValue, float64(found))
	if !state.CheckedSince.IsZero() {
		send(sinceDesc, prometheus.GaugeValue, float64(state.CheckedSince.UnixMilli())/1000)
	}
	damaged := map[Target]int{}
	for _, d := range state.Damaged {
		damaged[Target{Topic: d.Topic, Partition: d.Partition}]++
	}
	for t, n := range damaged {
		partition := strconv.Itoa(int(t.Partition))
		if t.Topic == "" {
			partition = ""
		}
		send(damagedDesc, prometheus.GaugeValue, float64(n), t.Topic, partition)
	}
}
