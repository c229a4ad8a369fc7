package cleaner

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// collector exports the cleaner_* metrics of docs/metrics.md and log_reclaimable_*. It computes
// them at each scrape. Gauges that are set only when something happens would remain after their log
// was closed, or would disappear when settings change (KAFKA-16574).
type collector struct{ cleaner *Cleaner }

// Collector returns the cleaner's metrics; the caller registers it.
func (c *Cleaner) Collector() prometheus.Collector { return collector{c} }

var partitionLabels = []string{"topic", "partition"}

// describe returns the description of a metric that each log has. The argument more lists the
// labels of the metric other than those of the partition.
func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_"+name, help, append(partitionLabels[:2:2], more...), nil)
}

// describePool returns the description of a metric that all logs share.
func describePool(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_cleaner_"+name, help, nil, nil)
}

var (
	reclaimableDesc = describe("log_reclaimable_bytes",
		"Bytes of garbage below the cleanable bound; absent while unknown.")
	reclaimableExactDesc = describe("log_reclaimable_exact",
		"1 if log_reclaimable_bytes was counted by a pass, 0 if it is estimated.")

	phaseDesc = describe("cleaner_phase", "1 for the phase of the cleaner in a log.", "phase")
	// The values of label reason are those of the Topic's condition Compacting.
	reasonDesc = describe("cleaner_reason", "1 for the reason of the phase, as in the Topic "+
		"condition Compacting; other reasons are absent.", "reason")
	progressDesc = describe("cleaner_progress_ratio", "Share of the running pass that is done.")
	etaDesc      = describe("cleaner_eta_seconds",
		"Estimated time until the running pass ends; absent while none runs.")
	runsDesc    = describe("cleaner_runs_total", "Passes that ended, by result.", "result")
	readDesc    = describe("cleaner_read_bytes_total", "Bytes the cleaner read.", "kind")
	writtenDesc = describe("cleaner_written_bytes_total", "Bytes the cleaner wrote.", "kind")
	// The value includes freed bytes of data files, but not of sidecars.
	reclaimedDesc = describe("cleaner_reclaimed_bytes_total", "Bytes the cleaner freed.", "kind")
	removedDesc   = describe("cleaner_removed_records_total", "Records the cleaner removed.",
		"kind")
	successDesc = describe("cleaner_last_success_timestamp_seconds",
		"Time of the last successful pass; absent if there was none.")
	overdueDesc = describe("cleaner_overdue_seconds",
		"Time since maxLag has passed for the oldest dirty segment, or for the oldest garbage "+
			"that the last pass left; 0 if maxLag has not passed.")

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
		memoryLimitDesc, throttledDesc, quarantineDesc,
	}
)

// Kinds of files that the cleaner reads and writes. Data files that are scanned to build sidecars
// are included in kindLog.
const (
	kindLog     = "log"
	kindSidecar = "sidecar"
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range descs {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	waiting, quarantined := 0, 0
	for _, log := range c.cleaner.compactions() {
		status := c.cleaner.statusOf(viewOf(log, now), now)
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
		series{metrics, []string{id.Topic, strconv.Itoa(int(id.Index))}}.log(status,
			log.SidecarBytes())
	}
	c.pool(series{metrics: metrics}, waiting, quarantined)
}

// pool exports the metrics that all logs share. waiting and quarantined are numbers of logs.
func (c collector) pool(s series, waiting, quarantined int) {
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

// series exports metrics that share their first labels. Its methods append to a copy of labels, by
// limiting its capacity. Otherwise two calls would overwrite each other's last label.
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

// log exports the metrics of one log. Counters exist from the start, at 0.
func (s series) log(status *report.Compaction, background logstore.SidecarBytes) {
	for _, phase := range clean.Phases {
		s.gauge(phaseDesc, boolean(phase.String() == status.Phase), phase.String())
	}
	s.gauge(reasonDesc, 1, status.Reason)
	s.gauge(progressDesc, status.ProgressRatio)
	if status.EtaSeconds != nil {
		s.gauge(etaDesc, *status.EtaSeconds)
	}
	if status.ReclaimableBytes != nil {
		s.gauge(reclaimableDesc, float64(*status.ReclaimableBytes))
		s.gauge(reclaimableExactDesc, boolean(status.ReclaimableExact))
	}
	if status.LastSuccess != nil {
		s.gauge(successDesc, *status.LastSuccess)
	}
	s.gauge(overdueDesc, status.OverdueSeconds)
	for _, result := range runResults {
		s.counter(runsDesc, float64(status.Runs[result]), result)
	}
	for _, total := range []struct {
		desc         *prometheus.Desc
		log, sidecar int64
	}{
		{readDesc, status.ReadBytes + background.Scanned,
			status.SidecarReadBytes + background.Read},
		{writtenDesc, status.WrittenBytes, status.SidecarWrittenBytes + background.Written},
		{reclaimedDesc, status.ReclaimedBytes, 0},
		{removedDesc, status.RemovedRecords, 0},
	} {
		s.counter(total.desc, float64(total.log), kindLog)
		s.counter(total.desc, float64(total.sidecar), kindSidecar)
	}
}

// boolean returns the value of a metric that stands for true or false: 1 or 0.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
