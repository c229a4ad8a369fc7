package local

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// electionOptions apply to the elections of a change, in addition to the settings of topics.
type electionOptions struct {
	// preferred elects each preferred leader that is in sync; preferredFor does so for some
	// partitions.
	preferred    bool
	preferredFor map[metadata.PartitionRef]bool
	// allowDataLoss elects any live replica of a partition without a leader, which may lose
	// records.
	allowDataLoss bool
}

// decide sets the leader and the ISR of every partition for the brokers that are up. It also lowers
// Draining when removed brokers hold no replicas any more. It modifies the partitions, so d must be
// a clone.
func (d *document) decide(up map[int32]metadata.Broker, w electionOptions) {
	brokers := brokerStates(up)
	incarnation := metadata.NewID().String()
	used := 0
	for _, t := range d.Topics {
		opts := placement.Options{AllowUnclean: w.allowDataLoss || d.unclean(t),
			ReplicaIncarnation: incarnation}
		for i, p := range t.Partitions {
			opts.PreferLeader = w.preferred || len(w.preferredFor) > 0 &&
				w.preferredFor[metadata.PartitionRef{Topic: t.kafkaName(), Partition: int32(i)}]
			t.Partitions[i] = fromPlacement(placement.Decide(p.placement(), brokers,
				opts).Partition)
			used = max(used, int(slices.Max(t.Partitions[i].Replicas))+1)
		}
	}
	// A draining broker must run until neither it nor a broker with a higher id holds replicas.
	if d.Draining = used; used <= d.Brokers {
		d.Draining = 0
	}
}

// unclean reports whether a topic allows unclean leader elections.
func (d *document) unclean(t topic) bool {
	settings, err := metadata.ResolveSettings(t.Spec.TopicSettings, d.resource())
	return err == nil && settings.UncleanElection // image reports the error
}

// brokerStates returns the input of elections. In this store a broker is either up or its process
// has exited.
func brokerStates(up map[int32]metadata.Broker) map[int32]placement.BrokerState {
	all := make(map[int32]placement.BrokerState, len(up))
	for id, b := range up {
		all[id] = b.State()
	}
	return all
}

// placement converts a partition to the form that package placement uses. The result shares the
// partition's lists, which package placement does not modify.
func (p partition) placement() placement.Partition {
	to := placement.Partition{
		Replicas: p.Replicas, Target: p.Target, ReplicaIncarnations: p.ReplicaIncarnations,
		Leader: p.leader, LeaderEpoch: p.LeaderEpoch, UnprovenEpoch: p.UnprovenEpoch,
		LeaderDirectory: p.LeaderDirectory,
	}
	for _, m := range p.ISR {
		to.ISR = append(to.ISR, placement.InSyncReplica(m))
	}
	return to
}

// fromPlacement is the inverse of partition.placement.
func fromPlacement(from placement.Partition) partition {
	p := partition{
		Replicas: from.Replicas, Target: from.Target, ReplicaIncarnations: from.ReplicaIncarnations,
		LeaderEpoch: from.LeaderEpoch, UnprovenEpoch: from.UnprovenEpoch,
		LeaderDirectory: from.LeaderDirectory, leader: from.Leader,
	}
	for _, m := range from.ISR {
		p.ISR = append(p.ISR, member(m))
	}
	return p
}

// partition returns a pointer to a partition in the document, or nil if the partition does not
// exist.
func (d *document) partition(key servedPartition) *partition {
	id := key.topic.String()
	for _, t := range d.Topics {
		if t.ID == id && key.index >= 0 && int(key.index) < len(t.Partitions) {
			return &t.Partitions[key.index]
		}
	}
	return nil
}

// raiseEpochs holds new elections for the partitions in ahead, whose leader has found higher leader
// epochs in its logs. The new leader epochs are above those in the logs. The document can have
// lower leader epochs than a log if an earlier metadata file was lost.
func (d *document) raiseEpochs(leader int32, ahead map[servedPartition]int32,
	up map[int32]metadata.Broker) {
	for key, found := range ahead {
		p := d.partition(key)
		if p == nil || p.leader != leader {
			continue
		}
		current := p.placement()
		current.FoundEpoch = &found
		*p = fromPlacement(placement.Decide(current, brokerStates(up),
			placement.Options{ReplicaIncarnation: metadata.NewID().String()}).Partition)
	}
}

// changeISR applies an ISR change of a leader.
func (d *document) changeISR(change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) error {
	p := d.partition(servedPartition{change.Topic, change.Partition})
	if p == nil {
		return fmt.Errorf("%w: no partition %d of topic %s", metadata.ErrISRConflict,
			change.Partition, change.Topic)
	}
	changed, err := placement.ChangeISR(p.placement(), change.Proposal(), brokers)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrISRConflict, err)
	}
	*p = fromPlacement(changed)
	return nil
}

// image returns the metadata image of the document.
func (d document) image(up map[int32]metadata.Broker) (*metadata.Image, error) {
	brokers := make([]metadata.Broker, 0, len(up))
	for _, b := range up {
		brokers = append(brokers, b)
	}
	topics := make([]*metadata.Topic, 0, len(d.Topics))
	for _, t := range d.Topics {
		resolved, err := d.imageTopic(t)
		if err != nil {
			return nil, err
		}
		topics = append(topics, resolved)
	}
	return metadata.NewImage(d.ClusterID, metadata.ResolveCleaner(d.resource()), brokers,
		topics).WithPolicies(d.resource()), nil
}

// imageTopic returns a topic of the image. Its lists are copies, because images are immutable.
func (d document) imageTopic(t topic) (*metadata.Topic, error) {
	resolved, err := metadata.ResolveTopic(t.resource(), d.resource())
	if err != nil {
		return nil, err
	}
	if resolved.ID, err = metadata.ParseID(t.ID); err != nil {
		return nil, err
	}
	for i, p := range t.Partitions {
		added := &metadata.Partition{
			Index: int32(i), Replicas: slices.Clone(p.Replicas), Leader: p.leader,
			LeaderEpoch:   p.LeaderEpoch,
			UnprovenEpoch: p.UnprovenEpoch, ISR: p.members(), Target: slices.Clone(p.Target),
		}
		for _, broker := range p.Replicas {
			added.ReplicaIncarnations = append(added.ReplicaIncarnations,
				p.ReplicaIncarnations[broker])
		}
		for _, m := range p.ISR {
			added.ISREpochs = append(added.ISREpochs, m.Epoch)
		}
		resolved.Partitions = append(resolved.Partitions, added)
	}
	return resolved, nil
}
