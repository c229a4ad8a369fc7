package replica

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// applier applies metadata images to a Set. Only the goroutine that calls Set.Apply uses the
// applier.
type applier struct {
	set      *Set
	defaults metadata.Replication // settings that apply if an image does not contain them
	// cluster is the id of the cluster to which the store's logs belong; "" if the store contains no
	// logs.
	cluster        string
	recordedLosses map[PartitionID]string // result of recordedAs
	// replication and brokers are copied from the last applied image.
	replication metadata.Replication
	brokers     []metadata.Broker
	// shrunk counts the ISRs that the image being applied has shrunk.
	shrunk   atomic.Int64
	released bool // true if every log of the store belongs to a partition of the last applied image
}

// assignedPartition is a partition that an image assigns to this broker.
type assignedPartition struct {
	id        PartitionID
	topic     *metadata.Topic
	partition *metadata.Partition
}

// Apply makes the set match a metadata image: it creates, opens, configures and releases logs, and
// begins leader epochs. It returns the partitions that this broker reports to the metadata store
// (metadata.Served). The returned error joins the errors of single partitions; all other partitions
// are served. Apply must be called from one goroutine. It skips partitions that the image does not
// change. After a broker failure, tens of images arrive in quick succession, and each of them
// changes only a few of a thousand partitions (ADR 0254).
//
// The order of the steps matters:
//
//  1. Apply first releases logs. So if a topic was deleted and created again under the same name,
//     the directories for the new topic's logs are free.
//  2. Next it processes the partitions that this broker follows, or continues to lead, because this
//     step does not wait for the disk. Producers of partitions on other brokers may wait for this
//     step: for the removal of a dead replica from the ISR, or for this broker to follow a new
//     leader.
//  3. Last it processes the partitions that this broker begins to lead.
func (s *Set) Apply(img *metadata.Image) ([]metadata.Served, error) { return s.applier.apply(img) }

// Cluster returns the id of the cluster to which the store's logs belong. It must be called from
// the goroutine that calls Apply.
func (s *Set) Cluster() string { return s.applier.cluster }

func (a *applier) apply(img *metadata.Image) ([]metadata.Served, error) {
	s := a.set
	s.latest.Store(img) // stored before any role changes, so that each refusal names the new leader
	configured := a.configure(img)
	old := s.view.Load().partitions
	assigned := assignedTo(s.node, img)
	next := &view{image: img, partitions: make(map[PartitionID]*partition, len(assigned))}
	var faults []error
	sameLogs := a.released && img.ClusterID == a.cluster && sameLogs(old, assigned)
	if !sameLogs {
		faults = a.release(img, old, assigned)
		a.released = len(faults) == 0
		if a.released && img.ClusterID != "" {
			a.cluster = img.ClusterID // release has already released the logs of other clusters
		}
		a.createLogs(old, assigned)
	}
	changed := assigned
	if !configured {
		changed = next.keepUnchanged(old, assigned)
	}
	starting, others := a.splitStarting(old, changed)
	failed := map[PartitionID]error{}
	a.applyPartitions(img, next, others, failed)
	s.view.Store(s.view.Load().with(next.partitions))
	// The view next now contains all followed partitions. This broker does not follow the partitions
	// in starting, even if their leader epoch fails to begin.
	if len(changed) > 0 || !sameLogs {
		s.fetchers.follow(img, next.partitions)
	}
	s.isrUpdater.enqueueEach(others)

	a.applyPartitions(img, next, starting, failed)
	served, refused := next.served(assigned, failed)
	faults = append(faults, refused...)
	s.view.Store(next)
	s.isrUpdater.enqueueEach(starting)
	a.wake(old, next, changed)
	return served, errors.Join(faults...)
}

// configure applies an image's replication settings. It reports whether the settings or the brokers
// have changed. In that case the roles of all partitions must be computed again.
func (a *applier) configure(img *metadata.Image) (changed bool) {
	if slices.Equal(img.Brokers, a.brokers) && img.Replication == a.replication {
		return false
	}
	a.brokers, a.replication = img.Brokers, img.Replication
	a.set.lagMax.Store(int64(cmp.Or(a.replication.LagMax, a.defaults.LagMax)))
	a.set.catchUp.setRate(a.replication.CatchUpBytesRate)
	a.set.moves.setRate(a.replication.MoveBytesRate)
	return true
}

// wake wakes the requests that wait in changed or removed partitions, because these requests still
// refer to the old roles. The caller has already stored the new view, which the requests then read.
func (a *applier) wake(old map[PartitionID]*partition, next *view, changed []assignedPartition) {
	s := a.set
	ids := make([]PartitionID, 0, len(changed))
	for _, ap := range changed {
		// logSynced advances only the high watermarks of partitions in the stored view. If a new
		// partition was synced before next was stored, its high watermark has not advanced yet, and there
		// may be no later sync.
		next.partitions[ap.id].advance()
		ids = append(ids, ap.id)
	}
	removed := false
	for id := range old {
		if next.partitions[id] == nil {
			ids, removed = append(ids, id), true
		}
	}
	if removed {
		s.metrics.forgetTopics(old, next.partitions)
	}
	for _, id := range ids {
		s.produces.Notify(id)
		s.consumerFetches.Notify(id)
		s.followerFetches.Notify(id)
	}
	s.sessions.markImage(ids)
}

// assignedTo lists the partitions that an image assigns to the broker node, in the image's order.
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

// splitStarting separates the partitions whose leader epoch begins on this broker from the other
// partitions. Both results are in the order of assigned.
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

// served returns the partitions to report to the metadata store, and the errors of all partitions
// that failed. It reports five kinds of partitions: partitions that this broker serves, partitions
// that it does not serve because their log contains a later leader epoch, partitions whose log has
// lost records, partitions whose log has stopped while this broker is in their ISR, and partitions
// whose damaged log should be copied again, which it may also serve.
func (v *view) served(assigned []assignedPartition,
	failed map[PartitionID]error) (served []metadata.Served, faults []error) {
	for _, a := range assigned {
		p, err := v.partitions[a.id], failed[a.id]
		if err != nil {
			faults = append(faults, fmt.Errorf("partition %s: %w", a.id, err))
		}
		if request, ok := p.damagedReport(a); ok {
			served = append(served, request)
		}
		one := metadata.Served{Topic: a.topic.ID, Partition: a.partition.Index,
			LeaderEpoch: a.partition.LeaderEpoch}
		switch r := p.role.Load(); {
		case r.lossUnreported:
			one.Lost, one.ReplicaIncarnation = true, r.incarnation
		case p.stopped():
			if one.Stopped = true; !r.inISR {
				continue
			}
		case r.refusal == nil:
		case errors.Is(err, ErrFencedLeaderEpoch):
			one.LeaderEpoch, one.Ahead = p.log.LeaderEpoch(), true
		default:
			continue
		}
		served = append(served, one)
	}
	return served, faults
}

// with returns a copy of the view in which the given partitions are added or replaced.
func (v *view) with(partitions map[PartitionID]*partition) *view {
	all := maps.Clone(v.partitions)
	if all == nil {
		all = map[PartitionID]*partition{}
	}
	maps.Copy(all, partitions)
	return &view{image: v.image, partitions: all}
}

// release ends the roles of partitions that are no longer assigned to this broker. It also releases
// every log on the disk that belongs to no assigned partition. These are logs of partitions in the
// previous image and, at the first image, logs of topics that were deleted while the broker was
// down. If the first image shows an unassigned log's own leader epoch, release keeps the log until
// an image shows a later leader epoch (mayPrecedeAssignment).
func (a *applier) release(img *metadata.Image, old map[PartitionID]*partition,
	assigned []assignedPartition) []error {
	topics := make(map[PartitionID]metadata.ID, len(assigned))
	for _, ap := range assigned {
		topics[ap.id] = ap.topic.ID
	}
	faults := a.restoreTopicIDs(assigned)
	// Change the roles before closing the logs, so that a request that finds its log closed returns
	// the new role's refusal.
	for id, p := range old {
		if topic, ok := topics[id]; !ok || topic != p.topic {
			_ = p.setRole(&role{epoch: p.role.Load().epoch, leader: metadata.NoBroker,
				refusal: (&view{image: img}).missing(id)})
		}
	}
	var removals []logstore.Removal
	for _, log := range a.set.store.Logs() {
		id := log.ID()
		if topic, ok := topics[id]; ok && topic == metadata.ID(log.TopicID()) {
			continue
		}
		if slices.Contains(img.Unresolved, metadata.ID(log.TopicID())) {
			continue // the topic exists; a later image contains it
		}
		retain := log.Retain() || a.isOtherCluster(img) || log.TopicID() == logstore.TopicID{}
		if topic := img.TopicByID(metadata.ID(log.TopicID())); topic != nil {
			if _, seen := old[id]; !seen && mayPrecedeAssignment(topic, log) {
				continue // a later image will assign the partition, or show a later leader epoch
			}
			if !isServedElsewhere(topic, log) {
				retain = true // the topic exists, and this may be the only copy of its records
			}
		}
		a.set.logger.Info("releasing log of an unassigned partition", "partition", id,
			"keepsFiles", retain)
		removals = append(removals, logstore.Removal{ID: id, Retain: retain})
	}
	if len(img.Unresolved) == 0 {
		a.set.store.ForgetMissing(func(id PartitionID) bool {
			_, ok := topics[id]
			return ok && !a.isOtherCluster(img)
		})
	}
	if err := a.set.store.ReleaseAll(removals); err != nil {
		faults = append(faults, err)
	}
	return faults
}

// restoreTopicIDs replaces topic ids that are wrong or unknown because partition.metadata is
// damaged. Otherwise the log would be released, and removed under reclaim policy Delete. The
// replica incarnation id proves that the log belongs to the partition of this image: no other
// partition or topic has the same id.
func (a *applier) restoreTopicIDs(assigned []assignedPartition) (faults []error) {
	for _, ap := range assigned {
		log := a.set.store.Log(ap.id)
		want := ap.partition.ReplicaIncarnation(a.set.node)
		if log == nil || metadata.ID(log.TopicID()) == ap.topic.ID || want == "" {
			continue
		}
		if has, err := log.Notes().ReplicaIncarnation(); err != nil || has != want {
			continue
		}
		a.set.logger.Warn("damaged topic id of a log replaced by that of the metadata", "partition",
			ap.id, "found", log.TopicID(), "topicID", ap.topic.ID)
		faults = append(faults,
			logstore.SmallFiles{Log: log}.SetTopicID(logstore.TopicID(ap.topic.ID)))
	}
	return slices.DeleteFunc(faults, func(err error) bool { return err == nil })
}

// isServedElsewhere reports whether another broker leads a reassigned partition, in this log's
// latest leader epoch or in a later one. If so, the new replicas have all records: a reassignment
// removes a replica only once its replacements are in sync. The comparison of epochs is necessary
// because a partition whose metadata were lost starts with lower leader epochs, and its replicas
// may be empty.
func isServedElsewhere(topic *metadata.Topic, log *logstore.Log) bool {
	id := log.ID()
	if int(id.Index) >= len(topic.Partitions) {
		return false
	}
	p := topic.Partitions[id.Index]
	return p.Leader != metadata.NoBroker && len(p.ISR) > 0 && p.LeaderEpoch >= log.LeaderEpoch()
}

// mayPrecedeAssignment reports whether an image that does not assign this log's partition to this
// broker may be older than the assignment. This can happen with the first image of a process,
// because an API server may answer from a watch cache that lags. After a crash the log may lack its
// latest leader epoch, in which no record was appended (ADR 0252), so an equal epoch proves
// nothing.
func mayPrecedeAssignment(topic *metadata.Topic, log *logstore.Log) bool {
	index := int(log.ID().Index)
	return index < len(topic.Partitions) && topic.Partitions[index].Leader != metadata.NoBroker &&
		topic.Partitions[index].LeaderEpoch == log.LeaderEpoch()
}

// isOtherCluster reports whether the store's logs belong to another cluster than the image. If so,
// a topic that is missing in the image was not necessarily deleted.
func (a *applier) isOtherCluster(img *metadata.Image) bool {
	return a.cluster != "" && a.cluster != img.ClusterID
}
