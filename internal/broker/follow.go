package broker

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
)

// retryInterval is how soon a failed image is applied again: the disk may have space again, or the
// API server may be back.
const retryInterval = 3 * time.Second

// offer accepts a new image from the metadata store without waiting. Images between two applied
// ones are skipped, since each is complete. The image is stored before follow is woken: a follow
// that receives the signal loads this image or a newer one.
func (b *Broker) offer(image *metadata.Image) {
	b.newest.Store(image)
	b.wake()
}

// wake makes follow apply the newest image, again if it has been applied already.
func (b *Broker) wake() {
	select {
	case b.wakeUp <- struct{}{}:
	default:
	}
}

// follow applies the newest image whenever it is woken, in one goroutine, as replica.Set requires.
// It returns nil when ctx ends. A failure is logged when its text changes, and retried every
// retryInterval.
func (b *Broker) follow(ctx context.Context) error {
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	for reported := ""; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wakeUp:
		case <-retry.C:
		}
		fault := ""
		image := b.newest.Load()
		if image == nil {
			continue // woken by a failed log before the first image
		}
		if err := b.apply(image); err != nil {
			fault = brief(err)
			retry.Reset(retryInterval)
		}
		if fault != "" && fault != reported {
			b.logger.Error("failed to apply metadata image", "error", fault)
		}
		reported = fault
	}
}

// apply applies an image. Requests see the image afterwards, and then the cluster is informed
// (serving.go). A failure does not withhold the image from requests: it concerns some partitions,
// and the others must be served.
func (b *Broker) apply(image *metadata.Image) error {
	if self, up := image.Broker(b.opts.NodeID); up {
		b.store.SetBrokerEpoch(self.Epoch) // for the clean shutdown
	}
	served, fault := b.replicas.Apply(image)
	// Only the registration of this disk is used, not one of an earlier disk.
	if self, up := image.Broker(b.opts.NodeID); up && self.Directory == b.self.Directory {
		fault = errors.Join(fault, b.ids.Begin(self.ProducerIDs))
	}
	fault = errors.Join(fault, b.recordCluster())
	// The initial image has no ClusterID, and the cleaner has defaults: the first real image always
	// configures it.
	if first := b.image(); first.ClusterID == "" || first.Cleaner != image.Cleaner {
		b.cleaner.Configure(cleanerOptions(image.Cleaner, b))
	}
	b.cleanNow.update(image, b.opts.NodeID)
	// The groups are applied before requests see the image: a client that is referred to this
	// broker as the coordinator then finds the coordinator, which may still be loading.
	b.groups.Apply(image)
	b.setImage(image)
	select {
	case <-b.applied:
	default:
		close(b.applied)
	}
	b.serving.set(served)
	return fault
}

// recordCluster writes the cluster id of the data directory after Apply has moved aside the logs of
// another cluster (ADR 0028). If it were written before, a crash in between would attribute those
// logs to this cluster.
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

// cleanerOptions converts the cluster's budget. In the budget 0 workers disable the cleaner; in the
// cleaner's options 0 selects the default.
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

// logFailed is called by the store when the disk of a log fails. The partition stays offline and
// the broker up. Applying the image again reports the change to the cluster.
func (b *Broker) logFailed(id logstore.PartitionID, err error) {
	b.logger.Error("partition offline", "partition", id, "error", err)
	b.wake()
}
