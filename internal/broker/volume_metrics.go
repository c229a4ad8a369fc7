package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/pressure"
)

var (
	volumeTotalDesc = prometheus.NewDesc("heartwood_volume_total_bytes",
		"Size of the volume of the data directory; absent if unknown.", nil, nil)
	volumeFreeDesc = prometheus.NewDesc("heartwood_volume_free_bytes",
		"Bytes that the broker can still write to its volume; absent if unknown.", nil, nil)
	volumeRejectDesc = prometheus.NewDesc("heartwood_volume_reject_free_bytes",
		"Free bytes below which the broker refuses produce requests of clients; absent if unknown.",
		nil, nil)
	volumePressureDesc = prometheus.NewDesc("heartwood_volume_pressure_level",
		"Storage pressure: 0 none, 1 warn, 2 clean, 3 reject, 4 reserve.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *volumeWatch) Describe(to chan<- *prometheus.Desc) {
	to <- volumeTotalDesc
	to <- volumeFreeDesc
	to <- volumeRejectDesc
	to <- volumePressureDesc
}

// Collect implements prometheus.Collector. It exports the last measurement, because a scrape must
// not wait for a disk that does not respond.
func (w *volumeWatch) Collect(metrics chan<- prometheus.Metric) {
	state := w.state.Load()
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if state.Total > 0 {
		gauge(volumeTotalDesc, float64(state.Total))
		gauge(volumeFreeDesc, float64(state.Free))
		limits := w.limits.Load()
		reject, _ := limits.Limit(pressure.Reject, state.Volume, limits.segmentBytes)
		gauge(volumeRejectDesc, float64(reject))
	}
	gauge(volumePressureDesc, float64(state.level))
}
