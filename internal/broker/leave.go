package broker

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// leaveTimeout bounds how long a stop waits for others to take over: a third of what a pod has to stop (internal/operator/render); the rest is for
// closing the logs.
const leaveTimeout = 20 * time.Second

// leave hands leadership over before the broker stops: it records that it goes, and serves on until no partition that others could lead
// is led here. What nobody else has, nobody can take over; nor can the metadata store be away for longer than leaveTimeout: then it stops
// all the same, and its clients wait as they would after a crash.
func (b *Broker) leave(ctx context.Context) {
	leaver, ok := b.opts.Metadata.(metadata.Leaver)
	if !ok || !b.leadsForOthers(b.image()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	began := time.Now()
	if err := leaver.Leave(ctx); err != nil {
		b.logger.Warn("stop without handing leadership over", "error", err)
		return
	}
	b.await(ctx, func(img *metadata.Image) bool { return !b.leadsForOthers(img) })
	if b.leadsForOthers(b.image()) {
		b.logger.Warn("stop although some partitions are still led here", "waited", time.Since(began))
		return
	}
	b.logger.Info("leadership handed over", "took", time.Since(began))
}

// leadsForOthers tells whether this broker leads a partition that another broker could lead: one in sync, alive, and not leaving itself.
func (b *Broker) leadsForOthers(img *metadata.Image) bool {
	for _, topic := range img.Topics {
		for _, p := range topic.Partitions {
			if p.Leader != b.opts.NodeID {
				continue
			}
			for _, id := range p.ISR {
				if other, up := img.Broker(id); up && id != b.opts.NodeID && !other.Leaving {
					return true
				}
			}
		}
	}
	return false
}
