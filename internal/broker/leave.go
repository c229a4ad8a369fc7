package broker

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// leaveTimeout bounds how long a stop waits for others to do without this broker: a third of what a
// pod has to stop (internal/operator/render); the rest is for closing the logs.
const leaveTimeout = 20 * time.Second

// leave takes the broker out before it stops: it records that it goes, and serves and follows on
// until others lead what they could lead, and count on it no more in what they lead. Were it in
// sync still when it stops, producers would wait until each leader has dropped it. What nobody else
// has, nobody can take over; nor can the metadata store be away for longer than leaveTimeout: then
// it stops all the same, and its clients wait as they would after a crash.
func (b *Broker) leave(ctx context.Context) {
	leaver, ok := b.opts.Metadata.(metadata.ShutdownAnnouncer)
	if !ok || !b.image().DependsOn(b.opts.NodeID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	began := time.Now()
	if err := leaver.AnnounceShutdown(ctx); err != nil {
		b.logger.Warn("stop without handing leadership over", "error", err)
		return
	}
	b.await(ctx, func(img *metadata.Image) bool { return !img.DependsOn(b.opts.NodeID) })
	if b.image().DependsOn(b.opts.NodeID) {
		b.logger.Warn(
			"stop although some partitions are still led here, or have this broker in sync",
			"waited",
			time.Since(began),
		)
		return
	}
	b.logger.Info("leadership handed over, and in sync no more", "took", time.Since(began))
}
