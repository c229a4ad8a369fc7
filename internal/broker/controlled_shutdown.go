package broker

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// shutdownTimeout bounds the controlled shutdown: a third of the grace period of a pod
// (internal/operator/render); the rest is for closing the logs.
const shutdownTimeout = 20 * time.Second

// shutDownGracefully is the controlled shutdown: it announces that the broker stops, and serves and
// follows the metadata until other brokers lead every partition that they can lead, and this broker
// is in no ISR of a partition that another broker leads. Otherwise producers would wait until each
// leader had removed it from the ISR. Partitions without another in-sync replica cannot be taken
// over. After shutdownTimeout, such as during an outage of the metadata store, the broker stops
// anyway, and its clients wait as after a crash.
func (b *Broker) shutDownGracefully(ctx context.Context) {
	announcer, ok := b.opts.Metadata.(metadata.ShutdownAnnouncer)
	if !ok || !b.image().DependsOn(b.opts.NodeID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	began := time.Now()
	if err := announcer.AnnounceShutdown(ctx); err != nil {
		b.logger.Warn("failed to announce shutdown; stopping without leadership transfer", "error",
			err)
		return
	}
	b.await(ctx, func(img *metadata.Image) bool { return !img.DependsOn(b.opts.NodeID) })
	if b.image().DependsOn(b.opts.NodeID) {
		b.logger.Warn(
			"controlled shutdown timed out: this broker still leads or is in sync",
			"waited",
			time.Since(began),
		)
		return
	}
	b.logger.Info("controlled shutdown completed: leadership transferred, all ISRs left", "took",
		time.Since(began))
}
