package broker

import (
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/replica"
)

// retryInterval is how long the broker waits after a failure before it retries to apply a metadata
// image or to send a report. In the meantime, space may be freed on the disk, or the API server may
// become available.
const retryInterval = 3 * time.Second

// offer accepts a new metadata image from the metadata store, without blocking. It stores the image
// before it wakes follow, so follow always loads this image or a newer one. follow may skip images,
// because each image is complete.
func (b *Broker) offer(image *metadata.Image) {
	b.images.offer(image)
	b.wake()
}

// wake makes follow apply the newest metadata image, even if that image was already applied.
func (b *Broker) wake() {
	select {
	case b.images.wakeUp <- struct{}{}:
	default:
	}
}

// follow applies the newest metadata image after each call of wake. It is the only goroutine that
// applies images, as replica.Set requires. It returns when ctx ends. After a failure, it retries
// every retryInterval. It logs a failure only if its text differs from the previous one, and never
// logs that a partition waits for an election.
func (b *Broker) follow(ctx context.Context) {
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	for reported := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-b.images.wakeUp:
		case <-retry.C:
		}
		fault := ""
		image := b.images.newest.Load()
		if image == nil {
			continue // a log has failed before the first image
		}
		if err := b.apply(image); err != nil {
			retry.Reset(retryInterval)
			if rest := slices.DeleteFunc(outage.Joined(err), replica.AwaitsElection); len(rest) > 0 {
				fault = outage.Brief(errors.Join(rest...))
			}
		}
		if fault != "" && fault != reported {
			b.logger.Error("failed to apply metadata image", "error", fault)
		}
		reported = fault
	}
}

// apply applies a metadata image. Afterwards requests use the image, and the broker reports the
// partitions that it serves (serving.go). This also holds if apply fails, because a failure affects
// only some partitions, and the others must be served.
func (b *Broker) apply(image *metadata.Image) error {
	// A broker whose version is too old for its cluster has an empty disk, because it refuses to open
	// a disk with the newer format. It must not copy records in formats that it does not support.
	if err := b.store.RaiseFormatLevel(image.FormatLevel); err != nil {
		return err
	}
	if self, up := image.Broker(b.opts.NodeID); up {
		b.store.SetBrokerEpoch(self.Epoch) // a clean shutdown writes it to the disk
	}
	served, fault := b.replicas.Apply(image)
	// The registration in the image may belong to this broker's previous disk. Its bound on producer
	// ids then does not apply to the current disk.
	if self, up := image.Broker(b.opts.NodeID); up && self.Directory == b.self.Directory {
		fault = errors.Join(fault, b.ids.Begin(self.ProducerIDs))
	}
	fault = errors.Join(fault, b.recordCluster())
	// Configure the cleaner when the first image is applied, and whenever the budget changes. The
	// initial empty image has no ClusterID.
	if first := b.image(); first.ClusterID == "" || first.Cleaner != image.Cleaner {
		b.cleaner.Configure(cleanerOptions(image.Cleaner, b))
	}
	b.scrub.Configure(scrub.Settings{Interval: image.Scrub.Interval,
		BytesRate: image.Scrub.BytesRate})
	b.store.SetVerification(verification[image.Scrub.VerifyReads])
	b.scrub.Annotate(image.ScrubNow.Topic, image.ScrubNow.Value)
	b.volumes.configure(image)
	b.level.Set(image.Metrics.AllOfPartitions)
	if b.opts.LogLevel != nil && b.opts.LogLevel.Set(image.LogLevel) {
		b.logger.Info("log level changed", "to", b.opts.LogLevel.Level())
	}
	b.cleanNow.Update(image, b.opts.NodeID)
	// Apply the image to the coordinators before requests use it. A coordinator for which the image
	// names this broker then exists, although it may still be loading.
	b.groups.Apply(image)
	b.transactions.Apply(image)
	b.images.apply(image)
	b.removals.update(image)
	select {
	case <-b.images.usable:
	default:
		close(b.images.usable)
	}
	b.serving.set(served)
	return fault
}

// recordCluster writes the cluster id to the data directory. It must be called after
// replicas.Apply, which sets aside the logs of another cluster (ADR 0028). In the opposite order,
// the other cluster's logs would be attributed to this cluster after a crash in between.
func (b *Broker) recordCluster() error {
	return b.cluster.set(b.replicas.Cluster())
}

// cleanerOptions converts the cluster's budget to cleaner options. In the budget, 0 workers
// disables the cleaner. In the options, 0 workers selects the default, and -1 disables the cleaner.
func cleanerOptions(budget metadata.CleanerBudget, b *Broker) cleaner.Options {
	workers := budget.Workers
	if workers == 0 {
		workers = -1
	}
	return cleaner.Options{
		Workers: workers, MemoryBytes: budget.MemoryBytes, IOBytesRate: budget.IOBytesRate,
		Logger: b.logger,
	}
}

// The store calls logFailed when a disk error or damage has stopped a log. The partition is then
// offline, but the broker keeps running. logFailed makes follow apply the image again, so that the
// broker reports that the log has stopped.
func (b *Broker) logFailed(id logstore.PartitionID, err error) {
	b.logger.Error("partition offline", "partition", id, "error", err)
	b.wake()
}
