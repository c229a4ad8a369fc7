package broker

import (
	"context"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// servingReport contains the list of partitions that this broker serves, which a separate goroutine
// reports to the metadata store. After a failover of a thousand partitions, a report to a slow API
// server may take a minute, and the broker must apply newer images in the meantime.
type servingReport struct {
	newest  atomic.Pointer[[]metadata.Served]
	changed chan struct{} // buffer of one; a token means that newest was set
}

// set replaces the list. A list may be replaced before it is reported, because each list is
// complete.
func (s *servingReport) set(served []metadata.Served) {
	s.newest.Store(&served)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// servingPauseMax is the maximum of servingPause.
const servingPauseMax = time.Second

// servingPause returns how long changes of the list are collected before it is reported. When a
// broker with thousands of partitions fails, there is a new image after each election in a
// PartitionSet. A report for each of these images would delay the next elections.
func servingPause(served int) time.Duration {
	return min(time.Duration(served)*100*time.Microsecond, servingPauseMax)
}

// reportServing reports the newest list until ctx ends, one call at a time. After a failure it
// retries every retryInterval. It starts when the broker accepts requests, because no partition is
// served before that.
func (b *Broker) reportServing(ctx context.Context) {
	select {
	case <-b.readiness.serves:
	case <-ctx.Done():
		return
	}
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	pause := time.NewTimer(retryInterval)
	pause.Stop()
	defer pause.Stop()
	for reports := (outage.State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-b.serving.changed:
		case <-retry.C:
		}
		served := b.serving.newest.Load()
		if served == nil {
			continue
		}
		pause.Reset(servingPause(len(*served)))
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		served = b.serving.newest.Load()
		err := b.opts.Metadata.ReportServing(ctx, b.opts.NodeID, *served)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if failed, ends := reports.Succeed(); ends {
				b.logger.Info("reports of served partitions succeed again", "failed", failed)
			}
			continue
		}
		retry.Reset(retryInterval)
		if reports.Fail(time.Now()) {
			b.logger.Warn("failed to report served partitions", "error", outage.Brief(err))
		}
	}
}
