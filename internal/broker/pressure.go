package broker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/pressure"
)

// Intervals between two measurements of the volume. The longest interval is used unless the volume
// could become too full before the next measurement.
const (
	shortestMeasureInterval = 20 * time.Millisecond
	longestMeasureInterval  = time.Second
	// diskBytesPerSecond is the assumed maximum rate at which the volume fills.
	diskBytesPerSecond = 500e6
	// reportInterval is the minimum time between two computations of the reclaimable bytes.
	reportInterval = time.Second
)

// volumeWatch measures the broker's volume and applies the storage pressure level (package
// pressure). Depending on the level, the cleaner reclaims space, the broker rejects produce
// requests, or all appends are rejected to preserve the reserve.
//
// Only the goroutine run takes measurements.
type volumeWatch struct {
	broker *Broker
	state  atomic.Pointer[volumeState]
	limits atomic.Pointer[volumeLimits]
	// reported is the last report to the metadata store. Only measure accesses it.
	reported v1alpha1.BrokerVolume
	checked  time.Time // time at which reported was last compared; only measure accesses it
}

// volumeState is the immutable result of a measurement.
type volumeState struct {
	pressure.Volume
	level pressure.Level
}

// volumeLimits contains the metadata settings that volumeWatch uses. It is immutable.
type volumeLimits struct {
	pressure.Thresholds
	segmentBytes int64 // largest segment size of all topics
}

// newVolumeWatch measures the volume once, so that a broker that starts on a full volume does not
// accept records. The thresholds are the defaults until the first metadata image.
func newVolumeWatch(b *Broker) *volumeWatch {
	w := &volumeWatch{broker: b}
	w.state.Store(&volumeState{})
	w.limits.Store(&volumeLimits{Thresholds: pressure.Default()})
	w.measure()
	return w
}

// configure sets the limits from a metadata image. They apply from the next measurement on.
func (w *volumeWatch) configure(image *metadata.Image) {
	next := volumeLimits{Thresholds: image.Pressure}
	if next.Thresholds == (pressure.Thresholds{}) {
		next.Thresholds = pressure.Default()
	}
	for _, topic := range image.Topics {
		next.segmentBytes = max(next.segmentBytes, topic.Settings.SegmentBytes)
	}
	w.limits.Store(&next)
}

// run measures the volume until ctx ends.
func (w *volumeWatch) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(measureInterval(w.measure()))
	}
}

// measureInterval returns the time until the next measurement. In this time, a disk can write at
// most slack bytes. The interval does not depend on the current write rate, because the load may
// change at any time. If slack is 0, only freed space can change the level, so the interval is the
// longest one.
func measureInterval(slack int64) time.Duration {
	if slack == 0 {
		return longestMeasureInterval
	}
	seconds := float64(slack) / diskBytesPerSecond
	return max(shortestMeasureInterval,
		time.Duration(min(seconds, longestMeasureInterval.Seconds())*float64(time.Second)))
}

// measure measures the volume and applies a change of the level. It returns how many bytes can
// still be written until the next level that rejects records begins.
func (w *volumeWatch) measure() (slack int64) {
	limits, before := w.limits.Load(), w.state.Load()
	now := volumeState{Volume: w.broker.measureVolume()}
	now.level = limits.Next(before.level, now.Volume, limits.segmentBytes)
	w.state.Store(&now)
	w.report(now, now.level != before.level)
	slack = limits.Slack(now.level, now.Volume, limits.segmentBytes)
	if now.level == before.level {
		return slack
	}
	var refusal error
	if now.level >= pressure.Reject {
		limit, _ := limits.Limit(pressure.Reject, now.Volume, limits.segmentBytes)
		refusal = fmt.Errorf("%w: %.0f%% is used, and %d MiB are free; more than %d MiB must be "+
			"free", pressure.ErrRejected, now.UsedPercent(), now.Free>>20, limit>>20)
	}
	w.broker.store.SetRefusal(refusal)
	w.broker.store.SetReserved(now.level >= pressure.Reserve)
	if c := w.broker.cleaner; c != nil {
		c.SetPressure(cleanerPressure(now.level))
	}
	w.log(before.level, now)
	return slack
}

// cleanerPressure converts a level of the volume to a cleaner pressure.
func cleanerPressure(level pressure.Level) cleaner.Pressure {
	switch {
	case level >= pressure.Reject:
		return cleaner.Severe
	case level >= pressure.Clean:
		return cleaner.Moderate
	}
	return cleaner.NoPressure
}

// report reports the volume to the metadata store if it has changed noticeably. Noticeable changes
// are another level, a change of the usage by more than one percentage point, and a change of the
// size or the reclaimable bytes by more than 1 % of the size. The size can change because some file
// systems reserve blocks.
func (w *volumeWatch) report(now volumeState, changed bool) {
	reporter, ok := w.broker.opts.Metadata.(metadata.VolumeReporter)
	if !ok || now.Total <= 0 || !changed && time.Since(w.checked) < reportInterval {
		return
	}
	w.checked = time.Now()
	next, last := v1alpha1.BrokerVolume{Pressure: now.level.String(),
		UsedPercent: int32(now.UsedPercent()), TotalBytes: now.Total,
		ReclaimableBytes: w.broker.reclaimableBytes()}, w.reported
	if next.Pressure == last.Pressure &&
		max(next.TotalBytes-last.TotalBytes, last.TotalBytes-next.TotalBytes) <= now.Total/100 &&
		max(next.UsedPercent-last.UsedPercent, last.UsedPercent-next.UsedPercent) <= 1 &&
		max(next.ReclaimableBytes-last.ReclaimableBytes,
			last.ReclaimableBytes-next.ReclaimableBytes) <= now.Total/100 {
		return
	}
	w.reported = next
	reporter.ReportVolume(next)
}

// log logs that the level has changed.
func (w *volumeWatch) log(before pressure.Level, now volumeState) {
	fields := []any{"level", now.level.String(), "before", before.String(),
		"usedPercent", int(now.UsedPercent()), "freeBytes", now.Free, "totalBytes", now.Total,
		"reclaimableBytes", w.broker.reclaimableBytes()}
	if now.level > before {
		w.broker.logger.Warn("storage pressure rose", fields...)
	} else {
		w.broker.logger.Info("storage pressure fell", fields...)
	}
}

// reclaimableBytes returns how many bytes the cleaner can reclaim in all logs, as far as that is
// known.
func (b *Broker) reclaimableBytes() int64 {
	if b.cleaner == nil {
		return 0
	}
	return b.cleaner.ReclaimableBytes()
}

// volume returns the last measurement of the volume. known is false if the volume's size is
// unknown.
func (w *volumeWatch) volume() (v report.Volume, known bool) {
	state, limits := w.state.Load(), w.limits.Load()
	if state.Total <= 0 {
		return v, false
	}
	reject, hysteresis := limits.Limit(pressure.Reject, state.Volume, limits.segmentBytes)
	v = report.Volume{Broker: w.broker.opts.NodeID, Pressure: state.level.String(),
		UsedPercent: int32(state.UsedPercent()), TotalBytes: state.Total, FreeBytes: state.Free,
		RejectFreeBytes: reject, ReclaimableBytes: w.broker.reclaimableBytes()}
	for _, known := range summary.PressureLevels {
		if known.Level == v.Pressure {
			text := []string{summary.DescribeVolume(v.Broker, &v1alpha1.BrokerVolume{
				Pressure: v.Pressure, UsedPercent: v.UsedPercent, TotalBytes: v.TotalBytes,
				ReclaimableBytes: v.ReclaimableBytes}) + ".", summary.Binary(v.FreeBytes) + " are free."}
			if state.level >= pressure.Reject {
				text = append(text, "It accepts records again when more than "+
					summary.Binary(reject+hysteresis)+" are free.")
			}
			v.Message = strings.Join(append(text, known.Effect), " ")
		}
	}
	return v, true
}

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
