package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
)

// servingReport is the list of partitions that this broker serves, to be reported to the cluster. A
// goroutine of its own reports it: after a failover of a thousand partitions a slow API server
// takes a minute, and newer images must be applied meanwhile.
type servingReport struct {
	newest  atomic.Pointer[[]metadata.Served]
	changed chan struct{} // holds one token: newest was set
}

// set replaces the list. Lists that were not reported yet are skipped, since each is complete.
func (s *servingReport) set(served []metadata.Served) {
	s.newest.Store(&served)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// reportServing reports the newest list, one call at a time, and retries every retryInterval until
// it succeeds. It starts once requests are accepted: until then the cluster must not treat a
// partition as served. It ends with ctx.
func (b *Broker) reportServing(ctx context.Context) {
	select {
	case <-b.serves:
	case <-ctx.Done():
		return
	}
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
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
			b.logger.Warn("failed to report served partitions", "error", brief(err))
		}
	}
}

// faultsShown is how many of several faults one log line contains.
const faultsShown = 5

// brief returns the text of an error, bounded for a thousand partitions and independent of the
// order of the faults.
func brief(err error) string {
	var words []string
	for _, fault := range joined(err) {
		words = append(words, fault.Error())
	}
	slices.Sort(words)
	if words = slices.Compact(words); len(words) > faultsShown {
		words = append(words[:faultsShown], fmt.Sprintf("and %d more", len(words)-faultsShown))
	}
	return strings.Join(words, "\n")
}

// joined splits what errors.Join combined, also recursively. An error that has more text than its
// parts stays whole.
func joined(err error) (faults []error) {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(several.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, one := range several.Unwrap() {
		faults = append(faults, joined(one)...)
	}
	return faults
}
