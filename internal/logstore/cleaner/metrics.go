package cleaner

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/scrape"
)

// collector exports the cleaner_* and log_reclaimable_* metrics in docs/operate/metrics.md. It
// computes them at each scrape. Gauges that are set only when something happens would remain after
// their log was closed, or would disappear when settings change (KAFKA-16574).
type collector struct {
	cleaner *Cleaner
	level   *scrape.Level
	mu      sync.Mutex // held during a scrape; concurrent scrapes would mix their totals
	totals  scrape.Totals[logstore.PartitionID]
}

// Collector returns the cleaner's metrics; the caller registers it. level selects the series of
// each partition; nil selects all.
func (c *Cleaner) Collector(level *scrape.Level) prometheus.Collector {
	return &collector{cleaner: c, level: level}
}

var partitionLabels = []string{"topic", "partition"}

// describe returns the description of a metric that each log has. more lists the metric's labels in
// addition to the partition's labels.
func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_"+name, help, append(partitionLabels[:2:2], more...), nil)
}

// describePool returns the description of a metric that all logs share.
func describePool(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_cleaner_"+name, help, nil, nil)
}

// describeBroker returns the description of the metric heartwood_broker_cleaner_<name>, whose
// values are sums over all logs.
func describeBroker(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_broker_cleaner_"+name, help, labels, nil)
}

var (
	reclaimableDesc = describe("log_reclaimable_bytes",
		"Bytes of garbage below the cleanable bound; absent while unknown.")
	reclaimableExactDesc = describe("log_reclaimable_exact",
		"1 if log_reclaimable_bytes was counted by a pass, 0 if it is estimated.")

	phaseDesc = describe("cleaner_phase", "1 for the phase of the cleaner in a log; other phases "+
		"are absent, or 0 with spec.metrics.partitions Full.", "phase")
	// The label reason has the same values as the Topic's condition Compacting.
	reasonDesc = describe("cleaner_reason", "1 for the reason of the phase, as in the Topic "+
		"condition Compacting; other reasons are absent.", "reason")
	progressDesc = describe("cleaner_progress_ratio", "Share of the running pass that is done; "+
		"while none runs absent, or 0 with spec.metrics.partitions Full.")
	etaDesc = describe("cleaner_eta_seconds",
		"Estimated time until the running pass ends; absent while none runs.")
	runsDesc    = describe("cleaner_runs_total", "Passes that ended, by result.", "result")
	readDesc    = describe("cleaner_read_bytes_total", "Bytes the cleaner read.", "kind")
	writtenDesc = describe("cleaner_written_bytes_total", "Bytes the cleaner wrote.", "kind")
	// The value includes the freed bytes of data files, but not of sidecars.
	reclaimedDesc = describe("cleaner_reclaimed_bytes_total", "Bytes the cleaner freed.", "kind")
	removedDesc   = describe("cleaner_removed_records_total", "Records the cleaner removed.",
		"kind")
	successDesc = describe("cleaner_last_success_timestamp_seconds",
		"Time of the last successful pass; absent if there was none.")
	overdueDesc = describe("cleaner_overdue_seconds",
		"Time since maxLag has passed for the oldest dirty segment, or for the oldest garbage "+
			"that the last pass left; 0 if maxLag has not passed.")

	brokerRunsDesc = describeBroker("runs_total", "Passes over all logs that ended, by result.",
		"result")
	brokerReadDesc      = describeBroker("read_bytes_total", "Bytes the cleaner read.", "kind")
	brokerWrittenDesc   = describeBroker("written_bytes_total", "Bytes the cleaner wrote.", "kind")
	brokerReclaimedDesc = describeBroker("reclaimed_bytes_total",
		"Bytes of data files that the cleaner freed.")
	brokerRemovedDesc = describeBroker("removed_records_total", "Records the cleaner removed.")

	queueDesc   = describePool("queue_length", "Logs that wait for a worker slot.")
	workersDesc = describePool("workers",
		"Worker slots: passes or hash slices that may run at once.")
	busyDesc   = describePool("workers_busy", "Worker slots that are in use.")
	memoryDesc = describePool("memory_bytes",
		"Memory that passes and the building of key sidecars hold.")
	memoryLimitDesc = describePool("memory_limit_bytes", "Memory budget of the cleaner.")
	throttledDesc   = describePool("throttled_seconds_total",
		"Time that passes waited for the I/O budget.")
	quarantineDesc = describePool("quarantined_partitions",
		"Logs that are retried with backoff because their last pass failed.")

	descs = []*prometheus.Desc{
		reclaimableDesc, reclaimableExactDesc, phaseDesc, reasonDesc, progressDesc, etaDesc,
		runsDesc, readDesc, writtenDesc, reclaimedDesc,
		removedDesc, successDesc, overdueDesc, queueDesc, workersDesc, busyDesc, memoryDesc,
		memoryLimitDesc, throttledDesc, quarantineDesc, brokerRunsDesc, brokerReadDesc,
		brokerWrittenDesc, brokerReclaimedDesc, brokerRemovedDesc,
	}
)

// Kinds of files that the cleaner reads and writes. kindLog includes data files that are scanned to
// build sidecars.
const (
	kindLog     = "log"
	kindSidecar = "sidecar"
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	counts := map[logstore.PartitionID][]float64{}
	waiting, quarantined := 0, 0
	for _, log := range c.cleaner.compactions() {
		status, process := c.cleaner.sample(viewOf(log, now), now)
		if status == nil {
			continue
		}
		switch status.Reason {
		case reasonQueued:
			waiting++
		case reasonQuarantined:
			quarantined++
		}
		id := log.ID()
		one := series{metrics, []string{id.Topic, strconv.Itoa(int(id.Index))}}
		counts[id] = countersOf(process, log.SidecarBytes())
		one.log(status)
		if c.level.Full() {
			one.detail(status, counts[id])
		} else {
			one.pass(status)
		}
	}
	series{metrics: metrics}.totals(c.totals.Sum(counts, numCounters))
	c.pool(series{metrics: metrics}, waiting, quarantined)
}

// pool exports the metrics that all logs share. waiting and quarantined are numbers of logs.
func (c *collector) pool(s series, waiting, quarantined int) {
	held, limit := c.cleaner.memoryBytes()
	busy, _ := c.cleaner.slots.usage()
	s.gauge(queueDesc, float64(waiting))
	s.gauge(workersDesc, float64(c.cleaner.options().Workers))
	s.gauge(busyDesc, float64(busy))
	s.gauge(memoryDesc, float64(held))
	s.gauge(memoryLimitDesc, float64(limit))
	s.counter(throttledDesc, time.Duration(c.cleaner.limit.throttled.Load()).Seconds())
	s.gauge(quarantineDesc, float64(quarantined))
}

// series exports metrics that share their first labels. Its methods limit the capacity of labels so
// that append copies them. Otherwise two calls would overwrite each other's last label.
type series struct {
	metrics chan<- prometheus.Metric
	labels  []string
}

func (s series) gauge(desc *prometheus.Desc, value float64, more ...string) {
	s.metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value,
		append(s.labels[:len(s.labels):len(s.labels)], more...)...)
}

func (s series) counter(desc *prometheus.Desc, value float64, more ...string) {
	s.metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value,
		append(s.labels[:len(s.labels):len(s.labels)], more...)...)
}

// log exports the metrics that both levels include.
func (s series) log(status *report.Compaction) {
	s.gauge(reasonDesc, 1, status.Reason)
	if status.EtaSeconds != nil {
		s.gauge(etaDesc, *status.EtaSeconds)
	}
	if status.ReclaimableBytes != nil {
		s.gauge(reclaimableDesc, float64(*status.ReclaimableBytes))
	}
	if status.LastSuccess != nil {
		s.gauge(successDesc, *status.LastSuccess)
	}
	s.gauge(overdueDesc, status.OverdueSeconds)
}

// pass exports the phase and the progress of the running pass, without series that are 0.
func (s series) pass(status *report.Compaction) {
	s.gauge(phaseDesc, 1, status.Phase)
	if status.Phase != clean.Idle.String() {
		s.gauge(progressDesc, status.ProgressRatio)
	}
}

// detail exports the metrics that only the level Full includes, with all values of their labels.
// counters is the result of countersOf.
func (s series) detail(status *report.Compaction, counters []float64) {
	for _, phase := range clean.Phases {
		s.gauge(phaseDesc, boolean(phase.String() == status.Phase), phase.String())
	}
	s.gauge(progressDesc, status.ProgressRatio)
	if status.ReclaimableBytes != nil {
		s.gauge(reclaimableExactDesc, boolean(status.ReclaimableExact))
	}
	s.counters(counters, runsDesc, readDesc, writtenDesc)
	for desc, value := range map[*prometheus.Desc]float64{
		reclaimedDesc: counters[counterReclaimed], removedDesc: counters[counterRemoved]} {
		s.counter(desc, value, kindLog)
		s.counter(desc, 0, kindSidecar)
	}
}

// Indexes of countersOf's result, after the passes by result.
const (
	counterRead = iota + 4
	counterSidecarRead
	counterWritten
	counterSidecarWritten
	counterReclaimed
	counterRemoved
	numCounters
)

// countersOf returns a log's counters in this process: first the numbers of passes, in the order of
// runResults, then bytes and records. The bytes include sidecars that were built in the background.
func countersOf(process counters, background compaction.SidecarBytes) []float64 {
	values := make([]float64, numCounters)
	for i, runs := range process.runs {
		values[i] = float64(runs)
	}
	values[counterRead] = float64(process.read + background.Scanned)
	values[counterSidecarRead] = float64(process.sidecarRead + background.Read)
	values[counterWritten] = float64(process.written)
	values[counterSidecarWritten] = float64(process.sidecarWritten + background.Written)
	values[counterReclaimed] = float64(process.reclaimed)
	values[counterRemoved] = float64(process.removedRecords)
	return values
}

// totals exports the sums over all logs. counters is the sum of countersOf's results. Counters
// exist from the start, at 0.
func (s series) totals(counters []float64) {
	s.counters(counters, brokerRunsDesc, brokerReadDesc, brokerWrittenDesc)
	s.counter(brokerReclaimedDesc, counters[counterReclaimed])
	s.counter(brokerRemovedDesc, counters[counterRemoved])
}

func (s series) counters(counters []float64, runs, read, written *prometheus.Desc) {
	for i, result := range runResults {
		s.counter(runs, counters[i], result)
	}
	s.counter(read, counters[counterRead], kindLog)
	s.counter(read, counters[counterSidecarRead], kindSidecar)
	s.counter(written, counters[counterWritten], kindLog)
	s.counter(written, counters[counterSidecarWritten], kindSidecar)
}

// boolean returns the value of a metric that represents true or false: 1 or 0.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
