package logstore

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector computes the metrics heartwood_log_* of docs/metrics.md at each scrape.
type collector struct{ store *Store }

var partitionLabels = []string{"topic", "partition"}

// describe returns the description of the metric heartwood_log_<name>. The capacity of
// partitionLabels is limited, so that append copies the labels and no two descriptions share an
// array.
func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_log_"+name, help, append(partitionLabels[:2:2], more...),
		nil)
}

var (
	sizeDesc     = describe("size_bytes", "Size of all segments of a log.")
	segmentsDesc = describe("segments", "Number of segments of a log.")
	startDesc    = describe("start_offset",
		"Log start offset: the first offset that may be read.")
	endDesc           = describe("end_offset", "Log end offset: the offset of the next record.")
	highWatermarkDesc = describe("high_watermark",
		"High watermark: the offset below which consumers may read.")
	lastStableDesc = describe("last_stable_offset",
		"Last stable offset: the offset below which consumers with read_committed may read.")
	openTransactionsDesc = describe("open_transactions",
		"Transactions without a marker, which hold back committed reads and the cleaner.")
	oldestTransactionDesc = describe("oldest_transaction_timestamp_seconds",
		"Time at which the first batch of the oldest open transaction was written; absent without "+
			"one. After a restart it may be the time of a later batch.")
	cleanDesc = describe("clean_bytes",
		"Bytes below the first dirty offset of a compacted log.")
	dirtyDesc = describe("dirty_bytes",
		"Bytes of a compacted log from the first dirty offset to the end of what may be cleaned.")
	dirtyRatioDesc = describe("dirty_ratio",
		"dirty bytes / (clean + dirty bytes) of a compacted log; 0 if both are 0.")
	syncsDesc = describe("syncs_total",
		"Number of successful syncs of a log; under durability Fsync several appends share one.")
	syncTimeDesc = describe("sync_seconds_total",
		"Time spent in syncs of a log, including those that seal rolled segments.")
	tombstoneCleanDesc = describe("tombstone_clean_offset",
		"Offset below which no tombstone of a compacted log has an older record of its key left.")
	replicasTombstoneCleanDesc = describe("replicas_tombstone_clean_offset",
		"Smallest log_tombstone_clean_offset of all replicas, as last reported by the leader: only "+
			"tombstones below it are removed.")
	blockedDesc = describe("blocked_bytes",
		"Bytes of a compacted log that cannot be cleaned now, by reason.", "reason")
)

// blockedReasons are always exported, so that a series does not disappear when its value is 0.
// BlockedQuarantined is always exported too.
var blockedReasons = []string{BlockedActive, BlockedMinLag, BlockedTransaction, BlockedUnreplicated}

// Collector returns the store's metrics.
func (s *Store) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		sizeDesc, segmentsDesc, startDesc, endDesc, highWatermarkDesc, lastStableDesc,
		openTransactionsDesc, oldestTransactionDesc, cleanDesc,
		dirtyDesc, dirtyRatioDesc, tombstoneCleanDesc, replicasTombstoneCleanDesc, blockedDesc,
		syncsDesc, syncTimeDesc,
		compressedInDesc, compressedOutDesc, compressedTimeDesc,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	c.store.compressed.collect(metrics)
	for _, log := range c.store.Logs() {
		gauge := func(desc *prometheus.Desc, value float64, more ...string) {
			labels := append([]string{log.id.Topic, strconv.Itoa(int(log.id.Index))}, more...)
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
		}
		stats := log.Stats()
		gauge(sizeDesc, float64(stats.SizeBytes))
		gauge(segmentsDesc, float64(stats.Segments))
		gauge(startDesc, float64(stats.LogStart))
		gauge(endDesc, float64(stats.LogEnd))
		gauge(highWatermarkDesc, float64(stats.HighWatermark))
		gauge(lastStableDesc, float64(stats.LastStable))
		open, oldest := log.OpenTransactions()
		gauge(openTransactionsDesc, float64(open))
		if open > 0 {
			gauge(oldestTransactionDesc, float64(oldest.Since.UnixMilli())/1000)
		}
		labels := []string{log.id.Topic, strconv.Itoa(int(log.id.Index))}
		metrics <- counter(syncsDesc, float64(log.syncs.count.Load()), labels...)
		metrics <- counter(syncTimeDesc, time.Duration(log.syncs.spent.Load()).Seconds(),
			labels...)
		if log.Settings().Compact {
			log.compaction.collect(gauge, now)
		}
	}
}

func counter(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

// collect sends the gauges of the log's sections, which it computes in the same way as the cleaner.
// It changes nothing.
func (c *Compaction) collect(gauge func(*prometheus.Desc, float64, ...string), now time.Time) {
	s, ok := c.Sections(now)
	if !ok {
		return
	}
	gauge(cleanDesc, float64(s.CleanBytes))
	gauge(dirtyDesc, float64(s.DirtyBytes))
	gauge(dirtyRatioDesc, s.DirtyRatio())
	gauge(tombstoneCleanDesc, float64(c.TombstoneClean()))
	gauge(replicasTombstoneCleanDesc, float64(c.ReportedReplicasTombstoneClean()))
	for _, reason := range blockedReasons {
		gauge(blockedDesc, float64(s.Blocked[reason]), reason)
	}
	quarantined := 0.0
	if c.quarantined.Load() {
		quarantined = float64(s.DirtyBytes)
	}
	gauge(blockedDesc, quarantined, BlockedQuarantined)
}
