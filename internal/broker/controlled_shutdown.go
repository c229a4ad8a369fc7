package broker

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// shutdownTimeout is the maximum duration of the controlled shutdown. It is a third of the pod's
// grace period (internal/operator/render), which leaves time to close the logs.
const shutdownTimeout = 20 * time.Second

// noticeTime is how long a broker keeps serving after other brokers have taken over all its
// partitions. A client that sends a request in this time receives an error with the new leader. A
// client whose connection is closed before it knows the new leader may reconnect to the same
// address, which on Kubernetes belongs to a pod that no longer exists, and wait for its connection
// timeout (ADR 0298).
const noticeTime = time.Second

// shutDownGracefully performs the controlled shutdown. It announces that this broker is stopping,
// and waits until no partition depends on this broker (metadata.Image.DependsOn). In the meantime
// this broker serves requests and applies metadata images. Other brokers take over the leadership
// of its partitions where possible, and the leaders remove it from the ISRs. Without the controlled
// shutdown, producers would have to wait until each leader has removed the stopped broker from the
// ISR. If a broker that is not stopping has taken over a partition, this broker serves for another
// noticeTime.
//
// A partition without another in-sync replica cannot be taken over. After shutdownTimeout, for
// example because the metadata store is unavailable, the broker stops anyway, which affects clients
// like a crash.
func (b *Broker) shutDownGracefully(ctx context.Context) {
	announcer, ok := b.opts.Metadata.(metadata.ShutdownAnnouncer)
	if !ok || !b.image().DependsOn(b.opts.NodeID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.shutdown.timeout)
	defer cancel()
	began, before := time.Now(), b.image()
	if err := announcer.AnnounceShutdown(ctx); err != nil {
		b.logger.Warn("failed to announce shutdown; stopping without leadership transfer", "error",
			err)
		return
	}
	b.await(ctx, func(img *metadata.Image) bool { return !img.DependsOn(b.opts.NodeID) })
	if b.image().DependsOn(b.opts.NodeID) {
		b.logger.Warn(
			"controlled shutdown timed out: not every partition was handed over to other brokers",
			"waited",
			time.Since(began),
		)
		return
	}
	b.logger.Info(
		"controlled shutdown completed: every partition that another broker can lead was handed over",
		"took", time.Since(began),
	)
	if takenOver(before, b.image(), b.opts.NodeID) {
		b.shutdown.notice(ctx)
	}
}

// shutdown contains the timeouts of the shutdown. Only tests change them, before Run.
type shutdown struct {
	timeout time.Duration
	notice  func(context.Context)
}

// waitNotice waits for noticeTime.
func waitNotice(ctx context.Context) {
	select {
	case <-time.After(noticeTime):
	case <-ctx.Done():
	}
}

// takenOver reports whether a partition that the given broker led before is now led by a broker
// that is not shutting down.
func takenOver(before, now *metadata.Image, broker int32) bool {
	for _, topic := range before.Topics {
		after := now.Topic(topic.Name)
		if after == nil {
			continue
		}
		for i, p := range topic.Partitions[:min(len(topic.Partitions), len(after.Partitions))] {
			leader, up := now.Broker(after.Partitions[i].Leader)
			if p.Leader == broker && up && leader.ID != broker && !leader.Leaving {
				return true
			}
		}
	}
	return false
}
