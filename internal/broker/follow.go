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

// retryInterval is how long the broker waits before it applies an image again, or repeats a report,
// after a failure. By then the disk may have space, or the API server may be available.
const retryInterval = 3 * time.Second

// offer accepts a new image from the metadata store without waiting. follow may skip images,
// because each image is complete. offer stores the image before it wakes follow, so that follow
// loads this image or a newer one.
func (b *Broker) offer(image *metadata.Image) {
	b.images.offer(image)
	b.wake()
}

// wake makes follow apply the newest image, even if that image has been applied already.
func (b *Broker) wake() {
	select {
	case b.images.wakeUp <- struct{}{}:
	default:
	}
}

// follow applies the newest image whenever wake was called. All images are applied by this one
// goroutine, as replica.Set requires. follow returns when ctx ends. It retries a failed image
// every retryInterval, and logs a failure only if its text has changed. It does not log that a
// partition waits for an election.
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
			continue // a failed log called wake before the first image
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

// apply applies an image. Then requests can use the image, and the served partitions are reported
// to the cluster (serving.go). Both happen even if apply fails, because the failure concerns only
// some partitions, and the other partitions must be served.
func (b *Broker) apply(image *metadata.Image) error {
	// A broker that is too old for its cluster has an empty disk, because it would have refused to
	// open a disk of the newer format. It must not copy records in formats that it does not know.
	if err := b.store.RaiseFormatLevel(image.FormatLevel); err != nil {
		return err
	}
	if self, up := image.Broker(b.opts.NodeID); up {
		b.store.SetBrokerEpoch(self.Epoch) // written to the disk at a clean shutdown
	}
	served, fault := b.replicas.Apply(image)
	// The image may contain the registration of an earlier disk of this broker. Its bound of
	// producer ids does not apply to this disk.
	if self, up := image.Broker(b.opts.NodeID); up && self.Directory == b.self.Directory {
		fault = errors.Join(fault, b.ids.Begin(self.ProducerIDs))
	}
	fault = errors.Join(fault, b.recordCluster())
	// Configure the cleaner when the cleaner's budget changes, and for the first image. The image
	// before the first one has no ClusterID.
	if first := b.image(); first.ClusterID == "" || first.Cleaner != image.Cleaner {
		b.cleaner.Configure(cleanerOptions(image.Cleaner, b))
	}
	b.scrub.Configure(scrub.Settings(image.Scrub))
	b.scrub.Annotate(image.ScrubNow.Topic, image.ScrubNow.Value)
	b.volumes.configure(image)
	b.level.Set(image.Metrics.AllOfPartitions)
	if b.opts.LogLevel != nil && b.opts.LogLevel.Set(image.LogLevel) {
		b.logger.Info("log level changed", "to", b.opts.LogLevel.Level())
	}
	b.cleanNow.Update(image, b.opts.NodeID)
	// The groups are applied before requests use the image. If the image refers a client to this
	// broker as the coordinator, the coordinator then exists, although it may still be loading.
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
// replicas.Apply, which moves aside the logs of another cluster (ADR 0028). If the id were written
// first, a crash in between would attribute the logs of the other cluster to this cluster.
func (b *Broker) recordCluster() error {
	now := b.replicas.Cluster()
	if now == b.cluster {
		return nil
	}
	if err := writeClusterID(b.opts.FS, b.opts.DataDir, now); err != nil {
		return err
	}
	b.cluster = now
	return nil
}

// cleanerOptions converts the cluster's budget to options of the cleaner. In the budget, 0 workers
// disable the cleaner; in the options, 0 workers select the default, and -1 disables the cleaner.
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

// logFailed is called by the store when the disk of a log fails. The partition is offline from then
// on, and the broker stays up. When follow applies the image again, the broker reports to the
// cluster that it does not serve the partition any more.
func (b *Broker) logFailed(id logstore.PartitionID, err error) {
	b.logger.Error("partition offline", "partition", id, "error", err)
	b.wake()
}
