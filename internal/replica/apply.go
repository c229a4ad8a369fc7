package replica

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// applier applies metadata images to a Set. It belongs to the goroutine that calls Set.Apply.
type applier struct {
	set      *Set
	defaults metadata.Replication // for settings that an image does not contain
	// cluster is the id of the cluster whose logs the store holds; "": the store holds no logs yet.
	cluster     string
	replication metadata.Replication // the settings in the last image
}

// assignedPartition is a partition that an image assigns to this broker.
type assignedPartition struct {
	id        PartitionID
	topic     *metadata.Topic
	partition *metadata.Partition
}

// Apply makes the set match a metadata image: it creates, opens, configures and releases logs, and
// begins leader epochs. It returns the partitions that this broker leads and serves now, and those
// that it does not serve because their log knows a later leader epoch. The errors of single
// partitions come joined; the other partitions are served. Apply must be called from one goroutine.
//
// The order of the steps matters:
//
//  1. Logs are released first, so that a topic that was deleted and created again under its name
//     finds its directories free.
//  2. The partitions that this broker keeps leading, or follows, come next, because they wait for
//     no disk. Producers of other brokers wait for them: until a dead replica is out of the ISR, or
//     until this broker follows the new leader.
//  3. The partitions that this broker begins to lead come last.
func (s *Set) Apply(img *metadata.Image) ([]metadata.Served, error) { return s.applier.apply(img) }

// Cluster returns the id of the cluster whose logs the store holds. It must be called from the
// goroutine that calls Apply.
func (s *Set) Cluster() string { return s.applier.cluster }

func (a *applier) apply(img *metadata.Image) ([]metadata.Served, error) {
	s := a.set
	a.configure(img.Replication)
	old := s.view.Load().partitions
	assigned := assignedTo(s.node, img)
	next := &view{image: img, partitions: make(map[PartitionID]*partition, len(assigned))}
	faults := a.release(img, old, assigned)
	if len(faults) == 0 && img.ClusterID != "" {
		a.cluster = img.ClusterID // the logs of other clusters were released
	}

	a.createLogs(old, assigned)
	starting, others := a.splitStarting(old, assigned)
	failed := map[PartitionID]error{}
	a.applyPartitions(img, next, others, failed)
	s.view.Store(s.view.Load().with(next.partitions))
	// next contains all followed partitions now: a partition that this broker begins to lead is not
	// followed, even if its leader epoch fails to begin.
	s.fetchers.follow(img, next.partitions)
	s.isrUpdater.enqueueAll()

	a.applyPartitions(img, next, starting, failed)
	served, refused := next.served(assigned, failed)
	faults = append(faults, refused...)
	s.view.Store(next)
	s.isrUpdater.enqueueAll()
	// Advance again, now that logSynced finds the partitions in their new roles: a sync that ended
	// after applyPartition and before now advanced no high watermark, and there may be no later
	// sync.
	for _, p := range next.partitions {
		p.advance()
	}
	s.metrics.forgetTopics(old, next.partitions)
	// Wake the requests that wait under the old roles. This happens after the new view is stored,
	// so that the requests read the new view.
	for id := range old {
		s.produces.Notify(id)
		s.consumerFetches.Notify(id)
		s.followerFetches.Notify(id)
	}
	s.sessions.markAll()
	return served, errors.Join(faults...)
}

// configure applies an image's replication settings, if they changed.
func (a *applier) configure(now metadata.Replication) {
	if now == a.replication {
		return
	}
	a.replication = now
	a.set.lagMax.Store(int64(cmp.Or(now.LagMax, a.defaults.LagMax)))
	a.set.catchUp.setRate(now.CatchUpBytesRate)
}

// assignedTo lists the partitions that an image assigns to a broker, in the image's order.
func assignedTo(node int32, img *metadata.Image) []assignedPartition {
	var all []assignedPartition
	for _, topic := range img.Topics {
		for _, p := range topic.Partitions {
			for _, replica := range p.Replicas {
				if replica == node {
					all = append(all,
						assignedPartition{PartitionID{Topic: topic.Name, Index: p.Index}, topic, p})
				}
			}
		}
	}
	return all
}

// splitStarting separates the partitions whose leader epoch begins on this broker from the others.
// Both results keep the order of the partitions.
func (a *applier) splitStarting(old map[PartitionID]*partition,
	assigned []assignedPartition) (starting, others []assignedPartition) {
	for _, ap := range assigned {
		p := old[ap.id]
		leads := p != nil && p.topic == ap.topic.ID && p.role.Load().leaderState != nil &&
			p.role.Load().epoch == ap.partition.LeaderEpoch
		if ap.partition.Leader == a.set.node && !leads {
			starting = append(starting, ap)
		} else {
			others = append(others, ap)
		}
	}
	return starting, others
}

// served returns the partitions of the view that are served, and those that are not served only
// because their log contains a later leader epoch. It also returns the faults of the partitions
// that failed.
func (v *view) served(assigned []assignedPartition,
	failed map[PartitionID]error) (served []metadata.Served, faults []error) {
	for _, a := range assigned {
		p, err := v.partitions[a.id], failed[a.id]
		if err != nil {
			faults = append(faults, fmt.Errorf("partition %s: %w", a.id, err))
		}
		one := metadata.Served{Topic: a.topic.ID, Partition: a.partition.Index,
			LeaderEpoch: a.partition.LeaderEpoch}
		if state := p.state(); state.Leader && state.Fault == nil {
			served = append(served, one)
		} else if errors.Is(err, ErrFencedLeaderEpoch) {
			one.LeaderEpoch, one.Ahead = p.log.LeaderEpoch(), true
			served = append(served, one)
		}
	}
	return served, faults
}

// with returns the view with added or replaced partitions.
func (v *view) with(partitions map[PartitionID]*partition) *view {
	all := maps.Clone(v.partitions)
	if all == nil {
		all = map[PartitionID]*partition{}
	}
	maps.Copy(all, partitions)
	return &view{image: v.image, partitions: all}
}

// release ends the partitions that are no longer assigned, and releases every log on the disk
// without an assigned partition: the logs of partitions of the previous image, and, at the first
// image, the logs of topics that were deleted while the broker was down.
func (a *applier) release(img *metadata.Image, old map[PartitionID]*partition,
	assigned []assignedPartition) []error {
	topics := make(map[PartitionID]metadata.ID, len(assigned))
	for _, ap := range assigned {
		topics[ap.id] = ap.topic.ID
	}
	// The roles change before the logs close: a request that finds its log closed reads the refusal
	// from the role.
	for id, p := range old {
		if topic, ok := topics[id]; !ok || topic != p.topic {
			_ = p.setRole(&role{epoch: p.role.Load().epoch, leader: metadata.NoBroker,
				refusal: (&view{image: img}).missing(id)})
		}
	}
	var faults []error
	for _, log := range a.set.store.Logs() {
		id := log.ID()
		if topic, ok := topics[id]; ok && topic == metadata.ID(log.TopicID()) {
			continue
		}
		retain := log.Retain() || a.isOtherCluster(img)
		if topic := img.TopicByID(metadata.ID(log.TopicID())); topic != nil &&
			!isServedElsewhere(topic, log) {
			retain = true // the topic exists, and this may be the only copy of its records
		}
		a.set.logger.Info("releasing log", "partition", id, "retain", retain)
		if err := a.set.store.Release(id, retain); err != nil {
			faults = append(faults, fmt.Errorf("release partition %s: %w", id, err))
		}
	}
	return faults
}

// isServedElsewhere reports whether another broker leads a reassigned partition, in the latest
// leader epoch of this log or in a later one. The partition's new replicas then hold its records. A
// reassignment removes a replica only once its replacements are in sync. But Partitions may also
// have been deleted and created again, which resets the leader epochs.
func isServedElsewhere(topic *metadata.Topic, log *logstore.Log) bool {
	id := log.ID()
	if int(id.Index) >= len(topic.Partitions) {
		return false
	}
	p := topic.Partitions[id.Index]
	return p.Leader != metadata.NoBroker && len(p.ISR) > 0 && p.LeaderEpoch >= log.LeaderEpoch()
}

// isOtherCluster reports whether the store's logs belong to another cluster than the image: then a
// topic that the image lacks was not necessarily deleted.
func (a *applier) isOtherCluster(img *metadata.Image) bool {
	return a.cluster != "" && a.cluster != img.ClusterID
}
