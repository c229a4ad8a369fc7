package logstore

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/scrape"
)

// collector computes the metrics heartwood_log_* of docs/metrics.md at each scrape.
type collector struct {
	store *Store
	level *scrape.Level
	mu    sync.Mutex // held during a scrape, so that concurrent ones do not disorder totals
	syncs scrape.Totals[PartitionID]
}

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

// blockedReasons are always exported, so that a series does not disappear when its value is 0.
// BlockedQuarantined is always exported too.
var blockedReasons = []string{compaction.BlockedActive, compaction.BlockedMinLag,
	compaction.BlockedTransaction, compaction.BlockedUnreplicated}

// Collector returns the store's metrics. The level selects the series of each partition; nil: all.
func (s *Store) Collector(level *scrape.Level) prometheus.Collector {
	return &collector{store: s, level: level}
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
	c.store.compressed.collect(metrics)
	all := brokerSections{blocked: map[string]int64{}}
	syncs := map[PartitionID][]float64{}
	now := time.Now()
	for _, log := range c.store.Logs() {
		s := logSeries{metrics, []string{log.id.Topic, strconv.Itoa(int(log.id.Index))}, c.level}
		s.log(log)
		count, spent := log.disk.Syncs()
		syncs[log.id] = []float64{float64(count), spent.Seconds()}
		if sections, ok := log.compaction.Sections(now); log.Settings().Compact && ok {
			s.compaction(&log.compaction, sections)
			all.add(sections, log.compaction.Quarantined())
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

func (s logSeries) log(log *Log) {
	stats := log.Stats()
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
		count, spent := log.disk.Syncs()
		s.metrics <- counter(syncsDesc, float64(count), s.labels...)
		s.metrics <- counter(syncTimeDesc, spent.Seconds(), s.labels...)
	}
}

// compaction exports the series of a compacted log with the given sections.
func (s logSeries) compaction(c *compaction.Compaction, sections compaction.Sections) {
	s.gauge(dirtyRatioDesc, sections.DirtyRatio())
	s.detail(cleanDesc, float64(sections.CleanBytes))
	s.detail(dirtyDesc, float64(sections.DirtyBytes))
	s.detail(tombstoneCleanDesc, float64(c.TombstoneClean()))
	s.detail(replicasTombstoneCleanDesc, float64(c.ReportedReplicasTombstoneClean()))
	for _, reason := range blockedReasons {
		s.detail(blockedDesc, float64(sections.Blocked[reason]), reason)
	}
	quarantined := int64(0)
	if c.Quarantined() {
		quarantined = sections.DirtyBytes
	}
	s.detail(blockedDesc, float64(quarantined), compaction.BlockedQuarantined)
}

// brokerSections are the sums of the sections of all compacted logs.
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

// Values of the label site of heartwood_compression_*: what the broker compressed a batch for. The
// metrics do not include a batch that keeps its producer's codec, because the broker does not
// compress it.
const (
	siteProduce = "produce" // an append
	siteClean   = "clean"   // a pass of the cleaner
)

var compressionLabels = []string{"codec", "level", "site"}

var (
	compressedInDesc = prometheus.NewDesc("heartwood_compression_input_bytes_total",
		"Bytes of the compressed records before compression.", compressionLabels, nil)
	compressedOutDesc = prometheus.NewDesc("heartwood_compression_output_bytes_total",
		"Bytes of the compressed records after compression.", compressionLabels, nil)
	compressedTimeDesc = prometheus.NewDesc("heartwood_compression_seconds_total",
		"Time spent compressing records, including waits for a processor.", compressionLabels, nil)
)

// compressionMeter counts the batches that the logs of a store compress. The metrics have one
// series for each codec, level and site in use. Codecs and levels are settings of topics, and
// clients cannot choose them, so the number of series stays small. The zero value is ready to use.
type compressionMeter struct {
	mu struct {
		sync.Mutex
		sums map[compressionKind]compressionSum
	}
}

// compressionKind is one set of label values: it identifies one series of each metric.
type compressionKind struct {
	codec compress.Codec
	level int
	site  string
}

// compressionSum holds the counters of one compressionKind. Its values only rise.
type compressionSum struct {
	in, out int64         // bytes of records before and after compression
	spent   time.Duration // wall-clock time
}

// at returns compress.To wrapped with a measurement for the site. The wrapper holds the lock only
// while it adds to the counters.
func (m *compressionMeter) at(site string) compress.Func {
	return func(dst *compress.Chunks, src []byte, codec compress.Codec, level int) error {
		before, began := dst.Len(), time.Now()
		err := compress.To(dst, src, codec, level)
		if err == nil {
			m.add(compressionKind{codec, level, site},
				compressionSum{int64(len(src)), int64(dst.Len() - before), time.Since(began)})
		}
		return err
	}
}

func (m *compressionMeter) add(kind compressionKind, one compressionSum) {
	// The label is the actual level, so the default level and an equal explicit level share one
	// series.
	if kind.level == compress.LevelDefault {
		_, _, kind.level, _ = kind.codec.Levels()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.sums == nil {
		m.mu.sums = map[compressionKind]compressionSum{}
	}
	sum := m.mu.sums[kind]
	m.mu.sums[kind] = compressionSum{sum.in + one.in, sum.out + one.out, sum.spent + one.spent}
}

// collect sends the counters to the channel. It copies them first: the channel may block, and
// appends must not wait for a scrape of the metrics.
func (m *compressionMeter) collect(metrics chan<- prometheus.Metric) {
	m.mu.Lock()
	sums := maps.Clone(m.mu.sums)
	m.mu.Unlock()
	for kind, sum := range sums {
		labels := []string{kind.codec.String(), kind.levelLabel(), kind.site}
		metrics <- counter(compressedInDesc, float64(sum.in), labels...)
		metrics <- counter(compressedOutDesc, float64(sum.out), labels...)
		metrics <- counter(compressedTimeDesc, sum.spent.Seconds(), labels...)
	}
}

// levelLabel returns the number of the level, or "none" for a codec without levels.
func (k compressionKind) levelLabel() string {
	if _, _, _, leveled := k.codec.Levels(); !leveled {
		return "none"
	}
	return strconv.Itoa(k.level)
}
