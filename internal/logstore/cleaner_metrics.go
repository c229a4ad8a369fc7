package logstore

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore/clean"
)

// cleanerCollector is the cleaner_* group of docs/metrics.md, and log_reclaimable_*, computed when
// it is scraped. Gauges that are set as things happen would outlive their log, or vanish with a
// change of settings (KAFKA-16574).
type cleanerCollector struct{ cleaner *Cleaner }

// Collector returns the cleaner's metrics; the caller registers it.
func (c *Cleaner) Collector() prometheus.Collector { return cleanerCollector{c} }

// describeCleaner names one metric of the group.
func describeCleaner(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("heartwood_cleaner_"+name, help, labels, nil)
}

var (
	reclaimableDesc = describe("reclaimable_bytes",
		"Bytes of garbage below what may be cleaned; absent while unknown.")
	reclaimableExactDesc = describe("reclaimable_exact",
		"1 if log_reclaimable_bytes was counted by a pass, 0 if it is estimated.")

	phaseDesc = describeCleaner("phase", "1 for what the cleaner does with a log now.", "topic",
		"partition", "phase")
	reasonDesc = describeCleaner(
		"reason",
		"1 for why the cleaner does that: a reason of the Topic's condition Compacting; the others are absent.",
		"topic",
		"partition",
		"reason",
	)
	progressDesc = describeCleaner("progress_ratio", "How much of the running pass is done.",
		"topic", "partition")
	etaDesc = describeCleaner("eta_seconds",
		"How long the running pass will take still; absent while none runs.", "topic", "partition")
	runsDesc = describeCleaner("runs_total", "Passes that ended, by result.", "topic",
		"partition", "result")
	readDesc = describeCleaner("read_bytes_total", "Bytes the cleaner read.", "topic",
		"partition", "kind")
	writtenDesc = describeCleaner("written_bytes_total", "Bytes the cleaner wrote.", "topic",
		"partition", "kind")
	reclaimedDesc = describeCleaner("reclaimed_bytes_total", "Bytes the cleaner freed.", "topic",
		"partition", "kind")
	removedDesc = describeCleaner("removed_records_total", "Records the cleaner removed.",
		"topic", "partition", "kind")
	successDesc = describeCleaner("last_success_timestamp_seconds",
		"When the last pass succeeded; absent if none did.", "topic", "partition")
	overdueDesc = describeCleaner("overdue_seconds",
		"How far past maxLag the oldest superseded record is.", "topic", "partition")

	queueDesc   = describeCleaner("queue_length", "Logs that wait for a worker.")
	workersDesc = describeCleaner("workers", "Logs or slices that may be worked on at once.")
	busyDesc    = describeCleaner("workers_busy", "Workers that work.")
	memoryDesc  = describeCleaner("memory_bytes",
		"Memory that passes and the making of key sidecars hold.")
	memoryLimitDesc = describeCleaner("memory_limit_bytes", "Memory the cleaner may hold.")
	throttledDesc   = describeCleaner("throttled_seconds_total",
		"Time passes waited for the I/O budget.")
	quarantineDesc = describeCleaner("quarantined_partitions",
		"Logs that wait because their last pass failed.")

	cleanerDescs = []*prometheus.Desc{
		reclaimableDesc, reclaimableExactDesc, phaseDesc, reasonDesc, progressDesc, etaDesc,
		runsDesc, readDesc, writtenDesc, reclaimedDesc,
		removedDesc, successDesc, overdueDesc, queueDesc, workersDesc, busyDesc, memoryDesc,
		memoryLimitDesc, throttledDesc, quarantineDesc,
	}
)

// Kinds of files the cleaner reads and writes. What is scanned of the log to make its sidecars
// counts as read too; what is freed is counted by the data alone.
const (
	kindLog     = "log"
	kindSidecar = "sidecar"
)

// Describe implements prometheus.Collector.
func (c cleanerCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range cleanerDescs {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c cleanerCollector) Collect(metrics chan<- prometheus.Metric) {
	now := time.Now()
	waiting, quarantined := 0, 0
	for _, log := range c.cleaner.store.Logs() {
		seen := lookAt(log, now)
		status := c.cleaner.statusOf(seen, now)
		if status == nil {
			continue
		}
		switch status.Reason {
		case reasonQueued:
			waiting++
		case reasonQuarantined:
			quarantined++
		}
		series{metrics, []string{log.id.Topic, strconv.Itoa(int(log.id.Index))}}.partition(status,
			&log.sidecars)
	}
	c.pool(series{metrics: metrics}, waiting, quarantined)
}

// pool puts out what all logs share.
func (c cleanerCollector) pool(s series, waiting, quarantined int) {
	held, limit := c.cleaner.memoryBytes()
	busy, _ := c.cleaner.turns.busy()
	c.cleaner.mu.Lock()
	workers, throttled := c.cleaner.mu.opts.Workers, c.cleaner.mu.throttled
	c.cleaner.mu.Unlock()
	s.gauge(queueDesc, float64(waiting))
	s.gauge(workersDesc, float64(workers))
	s.gauge(busyDesc, float64(busy))
	s.gauge(memoryDesc, float64(held))
	s.gauge(memoryLimitDesc, float64(limit))
	s.counter(throttledDesc, throttled.Seconds())
	s.gauge(quarantineDesc, float64(quarantined))
}

// series puts out metrics that share their first labels. Its methods append to a copy of labels
// (its capacity is cut): they would else write over one another's last label.
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

// partition puts out what is known of one log. Counters are there from the beginning, at 0.
func (s series) partition(status *report.Compaction, sidecars *sidecars) {
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
		{readDesc, status.ReadBytes + sidecars.scannedBytes.Load(),
			status.SidecarReadBytes + sidecars.readBytes.Load()},
		{writtenDesc, status.WrittenBytes,
			status.SidecarWrittenBytes + sidecars.writtenBytes.Load()},
		{reclaimedDesc, status.ReclaimedBytes, 0},
		{removedDesc, status.RemovedRecords, 0},
	} {
		s.counter(total.desc, float64(total.log), kindLog)
		s.counter(total.desc, float64(total.sidecar), kindSidecar)
	}
}

// boolean is how Prometheus writes a truth: 1 or 0.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
