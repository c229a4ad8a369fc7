package grouplag

import (
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/coordinator/lag"
)

var (
	groupLagDesc = prometheus.NewDesc("heartwood_group_lag_offsets",
		"Offsets by which a consumer group is behind the end of a topic: high watermark minus "+
			"committed offset, summed over the partitions. Exported by the coordinator of the "+
			"group, for its 100 largest pairs of group and topic. Updated every 15 seconds.",
		[]string{"group", "topic"}, nil)
	lagTotalDesc = prometheus.NewDesc("heartwood_coordinator_lag_offsets",
		"Lag of all groups that this broker coordinates, including those that "+
			"heartwood_group_lag_offsets omits.", nil, nil)
	lagOmittedDesc = prometheus.NewDesc("heartwood_coordinator_lag_omitted_pairs",
		"Pairs of group and topic that heartwood_group_lag_offsets omits, because 100 others have "+
			"a larger lag.", nil, nil)
	lagUnansweredDesc = prometheus.NewDesc("heartwood_coordinator_lag_unanswered_partitions",
		"Partitions with committed offsets whose leader has not answered the last question for "+
			"the end offset. Their lag is computed with the last known end offset; without one it "+
			"is missing in all sums.", nil, nil)
	lagSuccessDesc = prometheus.NewDesc("heartwood_coordinator_lag_last_success_timestamp_seconds",
		"Time at which the lag of all groups of this broker was last computed completely; 0 "+
			"before the first time.", nil, nil)
)

// Describe implements prometheus.Collector.
func (g *Lag) Describe(to chan<- *prometheus.Desc) {
	to <- groupLagDesc
	to <- lagTotalDesc
	to <- lagOmittedDesc
	to <- lagUnansweredDesc
	to <- lagSuccessDesc
}

// Collect implements prometheus.Collector. It exports the last round's result.
func (g *Lag) Collect(to chan<- prometheus.Metric) {
	state := g.state.Load()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for series, offsets := range seriesOf(state.Top) {
		gauge(groupLagDesc, float64(offsets), series.group, series.topic)
	}
	gauge(lagTotalDesc, float64(state.Offsets))
	gauge(lagOmittedDesc, float64(state.Omitted))
	gauge(lagUnansweredDesc, float64(state.Unanswered))
	success := 0.0
	if !state.Success.IsZero() {
		success = float64(state.Success.UnixMilli()) / 1000
	}
	gauge(lagSuccessDesc, success)
}

// lagSeries contains a series' label values.
type lagSeries struct{ group, topic string }

// seriesOf returns the series for the pairs. Clients can choose group ids that are not valid UTF-8,
// but label values must be valid. Groups whose ids differ only in invalid bytes share a series,
// because two series with the same labels would make every scrape fail.
func seriesOf(pairs []lag.Pair) map[lagSeries]int64 {
	all := map[lagSeries]int64{}
	for _, pair := range pairs {
		id := strings.ToValidUTF8(pair.Group, string(utf8.RuneError))
		all[lagSeries{id, pair.Topic}] += pair.Offsets
	}
	return all
}
