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

// serving is what the cluster is to hear of the partitions that this broker serves. It is told by a
// goroutine of its own: after a failover of a thousand partitions an API server that is slow takes
// a minute for that, and meanwhile there are newer images to apply, which say who leads what and
// whom to follow.
type serving struct {
	newest atomic.Pointer[[]metadata.Served]
	news   chan struct{} // holds one: newest was set
}

// set replaces what is to be told; what was not told yet is left out, as each list says everything.
func (s *serving) set(served []metadata.Served) {
	s.newest.Store(&served)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// tellServing tells the newest list, one call at a time and each later than the one before, and
// again every retryInterval until it was told whole. It begins once requests are taken, for the
// cluster must not hear of it earlier, and ends with ctx.
func (b *Broker) tellServing(ctx context.Context) {
	select {
	case <-b.serves:
	case <-ctx.Done():
		return
	}
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	for tells := (outage.State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-b.serving.news:
		case <-retry.C:
		}
		served := b.serving.newest.Load()
		if served == nil {
			continue // there is a signal, and the list was taken with the one before
		}
		err := b.opts.Metadata.ReportServing(ctx, b.opts.NodeID, *served)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			if failed, ends := tells.Succeed(); ends {
				b.logger.Info("the cluster is told again what is served", "failed", failed)
			}
			continue
		}
		retry.Reset(retryInterval)
		if tells.Fail(time.Now()) {
			b.logger.Warn("cannot tell the cluster what is served", "error", brief(err))
		}
	}
}

// faultsShown is how many of many faults a line of the log has.
const faultsShown = 5

// brief is an error in words, of which there are as many for a thousand partitions as for a few,
// and the same for the same faults in another order.
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

// joined takes apart what errors.Join put together, also where that was done again and again. An
// error that says more than its parts stays whole.
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
