package local

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/version"
)

// electionOptions contains options for the elections during one change, in addition to the topics'
// settings.
type electionOptions struct {
	// preferred elects every preferred leader that is in sync. preferredFor does the same for single
	// partitions.
	preferred    bool
	preferredFor map[partitionset.Key]bool
	// allowDataLoss elects a live replica for each partition without a leader, although records may be
	// lost.
	allowDataLoss bool
}

// decide sets the leader and the ISR of every partition, given the brokers that are up. It also
// lowers Draining once removed brokers no longer have replicas. It modifies the set, so d must be a
// clone.
func (d *document) decide(up map[int32]metadata.Broker, w electionOptions) {
	topics := make(map[string]partitionset.Topic, len(d.Topics))
	for _, t := range d.Topics {
		topics[t.kafkaName()] = partitionset.Topic{Tag: t.tag(), Partitions: t.Spec.Partitions,
			AllowUnclean: w.allowDataLoss || d.unclean(t)}
	}
	decided := d.set.Decide(partitionset.Input{
		Topics: topics, Brokers: brokerStates(up), Incarnation: metadata.NewID().String(),
		Preferred: func(key partitionset.Key) bool { return w.preferred || w.preferredFor[key] },
	})
	// A draining broker must run until neither it nor any broker with a higher id has replicas.
	d.Draining = 0
	for _, partition := range decided {
		if partition.After.Assignment.Reclaim.Orphaned() {
			continue
		}
		for _, id := range partition.After.State.Replicas {
			if int(id) >= d.Brokers {
				d.Draining = max(d.Draining, int(id)+1)
			}
		}
	}
}

// unclean reports whether a topic allows unclean leader elections.
func (d *document) unclean(t topic) bool {
	settings, err := metadata.SettingsOf(t.resource(), d.resource())
	return err == nil && settings.UncleanElection // the method image reports the error
}

// brokerStates returns the input for elections. In this store a broker is either up, or its process
// has exited.
func brokerStates(up map[int32]metadata.Broker) map[int32]placement.BrokerState {
	all := make(map[int32]placement.BrokerState, len(up))
	for id, b := range up {
		all[id] = b.State()
	}
	return all
}

// topicByID returns the topic with the given id.
func (d *document) topicByID(id metadata.ID) (topic, bool) {
	text := id.String()
	for _, t := range d.Topics {
		if t.ID == text {
			return t, true
		}
	}
	return topic{}, false
}

// reportFoundEpochs records the partitions in ahead, whose leader has found a later leader epoch in
// its log, so that the next elections begin even later epochs. The document can contain an earlier
// leader epoch than a log if a metadata file was lost.
func (d *document) reportFoundEpochs(leader int32, ahead map[servedPartition]int32) {
	for servedPartition, found := range ahead {
		if t, exists := d.topicByID(servedPartition.topic); exists {
			d.set.ReportFoundEpoch(t.key(servedPartition.index), leader, found)
		}
	}
}

// reportLostLogs records the partitions whose log a broker has lost, for the elections that follow
// in the same change.
func (d *document) reportLostLogs(broker int32, lost []metadata.Served) {
	for _, p := range lost {
		if t, exists := d.topicByID(p.Topic); exists {
			d.set.ReportLostLog(t.key(p.Partition), broker, p.ReplicaIncarnation,
				metadata.NewID().String())
		}
	}
}

// discardLogs makes damaged replicas leave the ISR and be copied again, if enough healthy replicas
// remain. Elections in the same change then choose other leaders.
func (d *document) discardLogs(up map[int32]metadata.Broker, broker int32,
	damaged []metadata.Served) {
	for _, p := range damaged {
		if t, exists := d.topicByID(p.Topic); exists {
			d.set.DiscardLog(t.key(p.Partition), discard(broker, p), brokerStates(up))
		}
	}
}

func discard(broker int32, p metadata.Served) placement.Discard {
	return placement.Discard{Broker: broker, Incarnation: p.ReplicaIncarnation,
		Next: metadata.NewID().String(), MinInSync: p.MinInSync}
}

// recordLosses records the losses that a broker has found before it registers. The elections that
// follow in the same change take this into account.
func (d *document) recordLosses(broker int32, losses *metadata.Losses) {
	for _, lost := range losses.In(d.ClusterID) {
		for _, t := range d.Topics {
			if t.kafkaName() == lost.Topic && (lost.TopicID == metadata.ID{} ||
				lost.TopicID.String() == t.ID) {
				d.set.RecordLoss(t.key(lost.Partition), broker, lost)
			}
		}
	}
}

// stopServing records the partitions that a broker led in the given leader epochs and no longer
// serves, because their logs have failed. Elections in the same change then choose other leaders.
func (d *document) stopServing(up map[int32]metadata.Broker, broker int32,
	stopped map[servedPartition]int32) {
	self := placement.InSyncReplica{Broker: broker, Epoch: up[broker].Epoch}
	for servedPartition, epoch := range stopped {
		if t, exists := d.topicByID(servedPartition.topic); exists {
			d.set.StopServing(t.key(servedPartition.index), self, epoch, brokerStates(up))
		}
	}
}

// stopLogs records the partitions whose log has stopped on a broker. Elections in the same change
// then choose other leaders.
func (d *document) stopLogs(up map[int32]metadata.Broker, broker int32,
	stopped []metadata.Served) {
	self := placement.InSyncReplica{Broker: broker, Epoch: up[broker].Epoch}
	for _, p := range stopped {
		if t, exists := d.topicByID(p.Topic); exists {
			d.set.StopLog(t.key(p.Partition), self, brokerStates(up))
		}
	}
}

// changeISR applies an ISR change that a leader proposes, and returns the partition epoch after the
// change.
func (d *document) changeISR(change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) (partitionEpoch int64, err error) {
	t, exists := d.topicByID(change.Topic)
	if !exists || change.Partition >= t.Spec.Partitions {
		return 0, fmt.Errorf("%w: no partition %d of topic %s", metadata.ErrISRConflict,
			change.Partition, change.Topic)
	}
	return d.set.ChangeISR(t.key(change.Partition), change, brokers)
}

// image returns the document's metadata image.
func (d document) image(up map[int32]metadata.Broker) (*metadata.Image, error) {
	brokers := make([]metadata.Broker, 0, len(up))
	for _, b := range up {
		brokers = append(brokers, b)
	}
	topics := make([]*metadata.Topic, 0, len(d.Topics))
	for _, t := range d.Topics {
		resolved, err := d.imageTopic(t, up)
		if err != nil {
			return nil, err
		}
		topics = append(topics, resolved)
	}
	image := metadata.NewImage(d.ClusterID, metadata.ResolveCleaner(d.resource()), brokers,
		topics).WithPolicies(d.resource())
	image.Retained = d.set.Retained()
	image.FormatLevel = formatLevel(d.resource())
	return image, nil
}

// formatLevel returns the cluster's format level, which is spec.formatLevel, limited to the level
// of this binary. There is no operator that raises the level automatically, so a downgrade to an
// earlier version remains possible.
func formatLevel(cluster *v1alpha1.LogCluster) int32 {
	if cluster == nil || cluster.Spec.FormatLevel == nil {
		return 0
	}
	return min(*cluster.Spec.FormatLevel, version.FormatLevel())
}

// imageTopic returns a topic for the image. Its lists are copies, because images are immutable. The
// image omits a leader that is not up in the broker epoch in which it was elected, because
// elections may be suspended (Hold).
func (d document) imageTopic(t topic, up map[int32]metadata.Broker) (*metadata.Topic, error) {
	resolved, err := metadata.ResolveTopic(t.resource(), d.resource())
	if err != nil {
		return nil, err
	}
	if resolved.ID, err = metadata.ParseID(t.ID); err != nil {
		return nil, err
	}
	for i := range t.Spec.Partitions {
		p := d.placed(t.key(i))
		added := &metadata.Partition{
			Index: i, Replicas: slices.Clone(p.Replicas), Leader: metadata.NoBroker,
			LeaderEpoch: p.LeaderEpoch, UnprovenEpoch: p.UnprovenEpoch, ISR: memberIDs(p),
			Target: slices.Clone(p.Target),
		}
		if entry, _ := d.set.Get(t.key(i)); entry.State != nil {
			added.PartitionEpoch = entry.State.Changes
		}
		added.RecordsLost = p.Leader == placement.NoLeader &&
			placement.RecordsLost(p.ISR, brokerStates(up))
		for _, broker := range p.Replicas {
			added.ReplicaIncarnations = append(added.ReplicaIncarnations,
				p.ReplicaIncarnations[broker])
		}
		for _, m := range p.ISR {
			added.ISREpochs = append(added.ISREpochs, m.Epoch)
			if b, isUp := up[m.Broker]; m.Broker == p.Leader && isUp && b.Epoch == m.Epoch {
				added.Leader = p.Leader
			}
		}
		resolved.Partitions = append(resolved.Partitions, added)
	}
	return resolved, nil
}
