package broker

import (
	"context"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// servingReport is the list of partitions that this broker serves and must report to the cluster. A
// separate goroutine reports it, because after a failover of a thousand partitions, a report to a
// slow API server takes a minute, and newer images must be applied in that time.
type servingReport struct {
	newest  atomic.Pointer[[]metadata.Served]
	changed chan struct{} // buffer of one; a token means that newest was set
}

// set replaces the list. A list may be replaced before it was reported, because each list is
// complete.
func (s *servingReport) set(served []metadata.Served) {
	s.newest.Store(&served)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// servingPauseMax is the longest time for which reports of served partitions are collected.
const servingPauseMax = time.Second

// servingPause returns the time for which changes are collected before a list of served partitions
// is reported. When a broker with thousands of partitions fails, an image follows each election of
// a PartitionSet. If each image caused a report, these reports would delay the next elections.
func servingPause(served int) time.Duration {
	return min(time.Duration(served)*100*time.Microsecond, servingPauseMax)
}

// reportServing reports the newest list until ctx ends, one call at a time. After a failure it
// retries every retryInterval. It starts when requests are accepted, because the cluster must not
// treat a partition as served before.
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
