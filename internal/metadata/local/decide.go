package local

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// wishes of one change, for all partitions; a topic's own come on top.
type wishes struct {
	preferred bool                           // leadership goes back to the first replicas
	home      map[metadata.PartitionRef]bool // and of these partitions
	// a partition that has no leader gets one that lives, whatever it lacks
	lossy bool
}

// decide gives every partition the leader and the in-sync replicas that it should have among the
// brokers that are up, and ends what draining is done. It writes into the partitions, so d must be
// a clone.
func (d *document) decide(up map[int32]metadata.Broker, w wishes) {
	brokers := standings(up)
	assignment := metadata.NewID().String()
	used := 0
	for _, t := range d.Topics {
		wanted := placement.Options{AllowUnclean: w.lossy || d.unclean(t),
			ReplicaIncarnation: assignment}
		for i, p := range t.Partitions {
			wanted.PreferLeader = w.preferred || len(w.home) > 0 &&
				w.home[metadata.PartitionRef{Topic: t.kafkaName(), Partition: int32(i)}]
			t.Partitions[i] = fromPlacement(placement.Decide(p.placement(), brokers,
				wanted).Partition)
			used = max(used, int(slices.Max(t.Partitions[i].Replicas))+1)
		}
	}
	// A broker beyond the others runs until nothing is on it, nor on one above it.
	if d.Draining = used; used <= d.Brokers {
		d.Draining = 0
	}
}

// unclean tells whether a topic would rather lose records than wait.
func (d *document) unclean(t topic) bool {
	settings, err := metadata.ResolveSettings(t.Spec.TopicSettings, d.resource())
	return err == nil && settings.UncleanElection // an error: image will say so
}

// standings are brokers as an election sees them. In this store a broker is up or it is not: who
// cannot be reached is ended.
func standings(up map[int32]metadata.Broker) map[int32]placement.BrokerState {
	all := make(map[int32]placement.BrokerState, len(up))
	for id, b := range up {
		all[id] = b.Standing()
	}
	return all
}

// placement is a partition as decisions are about it. They change no list that they are given.
func (p partition) placement() placement.Partition {
	to := placement.Partition{
		Replicas: p.Replicas, Target: p.Target, ReplicaIncarnations: p.Assignments,
		Leader: p.leader, LeaderEpoch: p.LeaderEpoch, UnprovenEpoch: p.UnprovenEpoch,
		LeaderDirectory: p.LeaderDirectory,
	}
	for _, m := range p.ISR {
		to.ISR = append(to.ISR, placement.InSyncReplica(m))
	}
	return to
}

// fromPlacement is the way back.
func fromPlacement(from placement.Partition) partition {
	p := partition{
		Replicas: from.Replicas, Target: from.Target, Assignments: from.ReplicaIncarnations,
		LeaderEpoch: from.LeaderEpoch, UnprovenEpoch: from.UnprovenEpoch,
		LeaderDirectory: from.LeaderDirectory, leader: from.Leader,
	}
	for _, m := range from.ISR {
		p.ISR = append(p.ISR, member(m))
	}
	return p
}

// partition finds a partition, to be written into; nil if there is none.
func (d *document) partition(key servedPartition) *partition {
	id := key.topic.String()
	for _, t := range d.Topics {
		if t.ID == id && key.index >= 0 && int(key.index) < len(t.Partitions) {
			return &t.Partitions[key.index]
		}
	}
	return nil
}

// outgrow lifts leader epochs above those that a leader's logs were found to be ahead by: the file
// that knew them was lost.
func (d *document) outgrow(leader int32, ahead map[servedPartition]int32,
	up map[int32]metadata.Broker) {
	for key, found := range ahead {
		p := d.partition(key)
		if p == nil || p.leader != leader {
			continue
		}
		asked := p.placement()
		asked.FoundEpoch = &found
		*p = fromPlacement(placement.Decide(asked, standings(up),
			placement.Options{ReplicaIncarnation: metadata.NewID().String()}).Partition)
	}
}

// changeISR makes a leader's proposal so.
func (d *document) changeISR(change metadata.ISRChange,
	brokers map[int32]placement.BrokerState) error {
	p := d.partition(servedPartition{change.Topic, change.Partition})
	if p == nil {
		return fmt.Errorf("%w: there is no partition %d of topic %s", metadata.ErrISRConflict,
			change.Partition, change.Topic)
	}
	changed, err := placement.ChangeISR(p.placement(), change.Proposal(), brokers)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrISRConflict, err)
	}
	*p = fromPlacement(changed)
	return nil
}

// image is the document as brokers see it.
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

// imageTopic is a topic as brokers see it. The lists are copies: an image lives on while the
// document changes.
func (d document) imageTopic(t topic) (*metadata.Topic, error) {
	resolved, err := metadata.ResolveTopic(t.resource(), d.resource())
	if err != nil {
		return nil, err
	}
	if resolved.ID, err = metadata.ParseID(t.ID); err != nil {
		return nil, err
	}
	for i, p := range t.Partitions {
		made := &metadata.Partition{
			Index: int32(i), Replicas: slices.Clone(p.Replicas), Leader: p.leader,
			LeaderEpoch:   p.LeaderEpoch,
			UnprovenEpoch: p.UnprovenEpoch, ISR: p.members(), Target: slices.Clone(p.Target),
		}
		for _, broker := range p.Replicas {
			made.ReplicaIncarnations = append(made.ReplicaIncarnations, p.Assignments[broker])
		}
		for _, m := range p.ISR {
			made.ISREpochs = append(made.ISREpochs, m.Epoch)
		}
		resolved.Partitions = append(resolved.Partitions, made)
	}
	return resolved, nil
}
