package broker

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/metadata"
)

// retryInterval is how soon an image is applied again when something of it failed: a disk may have
// got room, the API server may be back.
const retryInterval = 3 * time.Second

// offer takes a new image from the metadata store. It does not wait: images between two that are
// applied may be left out, as each says everything. The image is stored before follow is woken: a
// follow that takes the signal finds this image or a newer one, and a signal that is still there
// from an earlier offer will be taken, and the image loaded, later.
func (b *Broker) offer(image *metadata.Image) {
	b.newest.Store(image)
	b.wake()
}

// wake makes follow apply the newest image, once more if it did already.
func (b *Broker) wake() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// follow applies the newest image whenever there is one, in one goroutine: replica.Set wants that.
// It returns nil when ctx ends; a fault is logged when its text changes, and tried again every
// retryInterval.
func (b *Broker) follow(ctx context.Context) error {
	retry := time.NewTimer(retryInterval)
	retry.Stop()
	defer retry.Stop()
	for reported := ""; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-b.news:
		case <-retry.C:
		}
		fault := ""
		image := b.newest.Load()
		if image == nil {
			continue // a log failed before there was any
		}
		if err := b.apply(image); err != nil {
			fault = brief(err)
			retry.Reset(retryInterval)
		}
		if fault != "" && fault != reported { // not again with every try
			b.logger.Error("metadata not fully applied", "error", fault)
		}
		reported = fault
	}
}

// apply makes the broker what an image says. Requests see the image afterwards, and then the
// cluster learns what is served (serving.go). A fault does not keep the image from them: it
// concerns some partitions, and the others are to be served meanwhile.
func (b *Broker) apply(image *metadata.Image) error {
	if self, up := image.Broker(b.opts.NodeID); up {
		b.store.SetBrokerEpoch(self.Epoch) // for the clean stop
	}
	served, fault := b.replicas.Apply(image)
	// our registration, not one of a disk before
	if self, up := image.Broker(b.opts.NodeID); up && self.Directory == b.self.Directory {
		fault = errors.Join(fault, b.ids.Begin(self.ProducerIDs))
	}
	fault = errors.Join(fault, b.recordCluster())
	// The image before the first has no ClusterID, and the cleaner is made with defaults: the first
	// always configures it.
	if first := b.image(); first.ClusterID == "" || first.Cleaner != image.Cleaner {
		b.cleaner.Configure(cleanerOptions(image.Cleaner, b))
	}
	b.cleanNow.want(image, b.opts.NodeID)
	// before requests see the image: who is sent here as to a coordinator finds it, if only loading
	b.groups.Apply(image)
	b.show(image)
	select {
	case <-b.applied:
	default:
		close(b.applied)
	}
	b.serving.set(served)
	return fault
}

// recordCluster remembers whose logs the data directory holds, once Apply has made sure of it by
// moving aside what is of another cluster (docs/adr/0028). Written first, a crash in between would
// leave those logs looking like this cluster's.
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

// cleanerOptions turns the cluster's budget into the cleaner's: there 0 workers are none, here they
// are the default.
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

// logFailed is told by the store that a log's disk failed. The partition stays offline, and the
// broker up; what is served has changed, and applying the image again tells the cluster.
func (b *Broker) logFailed(id logstore.PartitionID, err error) {
	b.logger.Error("partition offline", "partition", id, "error", err)
	b.wake()
}
