// Package collector exports the metrics heartwood_log_*, heartwood_broker_log_* and
// heartwood_compression_* of a store. It uses only exported methods of the store and its logs that
// acquire no lock that is held during I/O. A scrape therefore never waits for the disk.
package collector

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/compressmeter"
	"heartwood.dev/heartwood/internal/scrape"
)

// collector computes the heartwood_log_* metrics in docs/operate/metrics.md at each scrape.
type collector struct {
	store *logstore.Store
	level *scrape.Level
	mu    sync.Mutex // held during a scrape; concurrent scrapes would mix their totals
	syncs scrape.Totals[logstore.PartitionID]
}

var partitionLabels = []string{"topic", "partition"}

// describe returns the description of the metric heartwood_log_<name>. The capacity of
// partitionLabels is limited so that append copies the labels; otherwise two descriptions would
// share an array.
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

	brokerCleanDesc = describeBroker("clean_bytes",
		"Bytes below the first dirty offsets of all compacted logs.")
	brokerDirtyDesc = describeBroker("dirty_bytes",
		"Bytes of all compacted logs from the first dirty offset to the end of what may be cleaned.")
	brokerBlockedDesc = describeBroker("blocked_bytes",
		"Bytes of all compacted logs that cannot be cleaned now, by reason.", "reason")
	brokerSyncsDesc    = describeBroker("syncs_total", "Number of successful syncs of all logs.")
	brokerSyncTimeDesc = describeBroker("sync_seconds_total",
		"Time spent in syncs of all logs, including those that seal rolled segments.")
)

// describeBroker returns the description of the metric heartwood_broker_log_<name>, whose values
// are sums over all logs.
func describeBroker(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_broker_log_"+name, help, labels, nil)
}

// blockedReasons lists the reasons that are always exported, because a series must not disappear
// when its value is 0. BlockedQuarantined is always exported too.
var blockedReasons = []string{compaction.BlockedActive, compaction.BlockedMinLag,
	compaction.BlockedTransaction, compaction.BlockedUnreplicated}

// New returns the metrics of a store. level selects the series of each partition; nil selects all.
func New(store *logstore.Store, level *scrape.Level) prometheus.Collector {
	return &collector{store: store, level: level}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		sizeDesc, segmentsDesc, startDesc, endDesc, highWatermarkDesc, lastStableDesc,
		openTransactionsDesc, oldestTransactionDesc, cleanDesc,
		dirtyDesc, dirtyRatioDesc, tombstoneCleanDesc, replicasTombstoneCleanDesc, blockedDesc,
		syncsDesc, syncTimeDesc,
		brokerCleanDesc, brokerDirtyDesc, brokerBlockedDesc, brokerSyncsDesc, brokerSyncTimeDesc,
		compressedInDesc, compressedOutDesc, compressedTimeDesc,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	collectCompression(metrics, c.store.Compressed().Sums())
	all := brokerSections{blocked: map[string]int64{}}
	syncs := map[logstore.PartitionID][]float64{}
	now := time.Now()
	for _, log := range c.store.Logs() {
		id, stats := log.ID(), log.Stats()
		s := logSeries{metrics, []string{id.Topic, strconv.Itoa(int(id.Index))}, c.level}
		s.log(log, stats)
		syncs[id] = []float64{float64(stats.Syncs), stats.SyncTime.Seconds()}
		if sections, ok := log.Compaction().Sections(now); log.Settings().Compact && ok {
			s.compaction(log.Compaction(), sections)
			all.add(sections, log.Compaction().Quarantined())
		}
	}
	all.collect(metrics)
	sums := c.syncs.Sum(syncs, 2)
	metrics <- counter(brokerSyncsDesc, sums[0])
	metrics <- counter(brokerSyncTimeDesc, sums[1])
}

// logSeries exports the series of one log.
type logSeries struct {
	metrics chan<- prometheus.Metric
	labels  []string // topic and partition; the capacity is 2
	level   *scrape.Level
}

func (s logSeries) gauge(desc *prometheus.Desc, value float64, more ...string) {
	s.metrics <- gauge(desc, value, append(s.labels, more...)...)
}

// detail exports a series that only the level Full includes.
func (s logSeries) detail(desc *prometheus.Desc, value float64, more ...string) {
	if s.level.Full() {
		s.gauge(desc, value, more...)
	}
}

func (s logSeries) log(log *logstore.Log, stats logstore.Stats) {
	s.gauge(sizeDesc, float64(stats.SizeBytes))
	s.detail(segmentsDesc, float64(stats.Segments))
	s.detail(startDesc, float64(stats.LogStart))
	s.gauge(endDesc, float64(stats.LogEnd))
	s.detail(highWatermarkDesc, float64(stats.HighWatermark))
	s.detail(lastStableDesc, float64(stats.LastStable))
	open, oldest := log.OpenTransactions()
	s.detail(openTransactionsDesc, float64(open))
	if open > 0 {
		s.gauge(oldestTransactionDesc, float64(oldest.Since.UnixMilli())/1000)
	}
	if s.level.Full() {
		s.metrics <- counter(syncsDesc, float64(stats.Syncs), s.labels...)
		s.metrics <- counter(syncTimeDesc, stats.SyncTime.Seconds(), s.labels...)
	}
}

// compaction exports the series of a compacted log with the given sections.
func (s logSeries) compaction(c *compaction.Compaction, sections compaction.Sections) {
	s.gauge(dirtyRatioDesc, sections.DirtyRatio())
	s.detail(cleanDesc, float64(sections.CleanBytes))
	s.detail(dirtyDesc, float64(sections.DirtyBytes))
	s.detail(tombstoneCleanDesc, float64(c.Progress.TombstoneClean()))
	s.detail(replicasTombstoneCleanDesc, float64(c.Progress.ReportedReplicasTombstoneClean()))
	for _, reason := range blockedReasons {
		s.detail(blockedDesc, float64(sections.Blocked[reason]), reason)
	}
	quarantined := int64(0)
	if c.Quarantined() {
		quarantined = sections.DirtyBytes
	}
	s.detail(blockedDesc, float64(quarantined), compaction.BlockedQuarantined)
}

// brokerSections contains the sums of the sections of all compacted logs.
type brokerSections struct {
	clean, dirty int64
	blocked      map[string]int64
}

func (b *brokerSections) add(s compaction.Sections, quarantined bool) {
	b.clean += s.CleanBytes
	b.dirty += s.DirtyBytes
	for reason, bytes := range s.Blocked {
		b.blocked[reason] += bytes
	}
	if quarantined {
		b.blocked[compaction.BlockedQuarantined] += s.DirtyBytes
	}
}

func (b *brokerSections) collect(metrics chan<- prometheus.Metric) {
	metrics <- gauge(brokerCleanDesc, float64(b.clean))
	metrics <- gauge(brokerDirtyDesc, float64(b.dirty))
	for _, reason := range append(blockedReasons[:len(blockedReasons):len(blockedReasons)],
		compaction.BlockedQuarantined) {
		metrics <- gauge(brokerBlockedDesc, float64(b.blocked[reason]), reason)
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

var compressionLabels = []string{"codec", "level", "site"}

var (
	compressedInDesc = prometheus.NewDesc("heartwood_compression_input_bytes_total",
		"Bytes of the compressed records before compression.", compressionLabels, nil)
	compressedOutDesc = prometheus.NewDesc("heartwood_compression_output_bytes_total",
		"Bytes of the compressed records after compression.", compressionLabels, nil)
	compressedTimeDesc = prometheus.NewDesc("heartwood_compression_seconds_total",
		"Time spent compressing records, including waits for a processor.", compressionLabels, nil)
)

// collectCompression sends the counters to the channel.
func collectCompression(metrics chan<- prometheus.Metric, sums []compressmeter.Sum) {
	for _, sum := range sums {
		labels := []string{sum.Codec.String(), levelLabel(sum), sum.Site}
		metrics <- counter(compressedInDesc, float64(sum.In), labels...)
		metrics <- counter(compressedOutDesc, float64(sum.Out), labels...)
		metrics <- counter(compressedTimeDesc, sum.Spent.Seconds(), labels...)
	}
}

// levelLabel returns the number of the level, or "none" for a codec without levels.
func levelLabel(s compressmeter.Sum) string {
	if _, _, _, leveled := s.Codec.Levels(); !leveled {
		return "none"
	}
	return strconv.Itoa(s.Level)
}
