package broker

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore/collector"
	"heartwood.dev/heartwood/internal/version"
)

// partitionMetrics exports the state of each partition on this broker. It computes the values at
// each scrape, so removed partitions leave no series.
type partitionMetrics struct {
	broker                                        *Broker
	leader, offline, underReplicated, underMinISR *prometheus.Desc
	lag, largestLag, late, hanging                *prometheus.Desc
}

// register adds this broker's metrics to a registry, which may be nil. Brokers that share a
// registry must use registerers that add distinct labels.
func (b *Broker) register(registry prometheus.Registerer, groupLag prometheus.Collector) {
	if registry == nil {
		return
	}
	registry.MustRegister(b.hanging.Aborted())
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("heartwood_"+name, help, []string{"topic", "partition"}, nil)
	}
	registry.MustRegister(collector.New(b.store, &b.level))
	registry.MustRegister(b.cleaner.Collector(&b.level))
	registry.MustRegister(b.volumes, groupLag, b.scrub)
	registry.MustRegister(&partitionMetrics{
		broker: b,
		leader: desc("partition_leader", "1 if this broker leads the partition, else 0."),
		offline: desc("partition_offline",
			"1 if this broker is a replica of the partition and cannot serve it, else 0."),
		underReplicated: desc("partition_under_replicated",
			"1 if a replica is not in the ISR, except one that a reassignment adds, else 0; exported "+
				"by the leader."),
		underMinISR: desc(
			"partition_under_min_isr",
			"1 if the ISR is smaller than minInSyncReplicas, so that acks=all is rejected, else 0; "+
				"exported by the leader.",
		),
		lag: prometheus.NewDesc("heartwood_replica_lag_offsets",
			"Offsets by which a follower is behind the log end offset; exported by the leader.",
			[]string{"topic", "partition", "replica"}, nil),
		largestLag: prometheus.NewDesc("heartwood_broker_replica_lag_offsets",
			"Largest number of offsets by which a follower is behind the log end offset of a "+
				"partition that this broker leads.", []string{"replica"}, nil),
		late: desc("log_late_transactions",
			"Transactions that are open for longer than the largest timeout of a producer and five "+
				"minutes; exported by the leader, absent without an open transaction."),
		hanging: desc("log_hanging_transactions",
			"Late transactions that no transaction coordinator will end; exported by the leader, "+
				"absent without an open transaction. Updated every minute."),
	})
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "heartwood_build_info", Help: "Always 1; the labels identify the binary.",
	}, []string{"version", "commit", "go"})
	info.WithLabelValues(version.Version(), version.Commit(), runtime.Version()).Set(1)
	registry.MustRegister(info)
}

// Describe implements prometheus.Collector.
func (m *partitionMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.leader
	to <- m.offline
	to <- m.underReplicated
	to <- m.underMinISR
	to <- m.lag
	to <- m.largestLag
	to <- m.late
	to <- m.hanging
}

// Collect implements prometheus.Collector.
func (m *partitionMetrics) Collect(to chan<- prometheus.Metric) {
	largest := map[int32]int64{}
	for _, state := range m.broker.replicas.States() {
		gauge := func(desc *prometheus.Desc, yes bool) {
			value := 0.0
			if yes {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, state.ID.Topic,
				strconv.Itoa(int(state.ID.Index)))
		}
		gauge(m.leader, state.Leader)
		gauge(m.offline, state.Fault != nil)
		// A follower does not know the current ISR, so its series could contradict the leader's series.
		if state.Leader {
			gauge(m.underReplicated, state.UnderReplicated)
			gauge(m.underMinISR, state.UnderMinISR)
		}
		for replica, lag := range state.Lags {
			largest[replica] = max(largest[replica], lag)
			if !m.broker.level.Full() {
				continue
			}
			to <- prometheus.MustNewConstMetric(m.lag, prometheus.GaugeValue, float64(lag),
				state.ID.Topic, strconv.Itoa(int(state.ID.Index)), strconv.Itoa(int(replica)))
		}
		if count, ok := m.broker.lateTransactions(state, time.Now()); ok {
			to <- prometheus.MustNewConstMetric(m.late, prometheus.GaugeValue, float64(count),
				state.ID.Topic, strconv.Itoa(int(state.ID.Index)))
			to <- prometheus.MustNewConstMetric(m.hanging, prometheus.GaugeValue,
				float64(len(m.broker.hanging.FirstOffsets(state.ID))), state.ID.Topic,
				strconv.Itoa(int(state.ID.Index)))
		}
	}
	for replica, lag := range largest {
		to <- prometheus.MustNewConstMetric(m.largestLag, prometheus.GaugeValue, float64(lag),
			strconv.Itoa(int(replica)))
	}
}
