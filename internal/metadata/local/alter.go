package local

import (
	"context"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// AlterTopic implements metadata.Alterer. It rejects a change of a topic that is in a manifest (ADR
// 0160).
func (s *Store) AlterTopic(ctx context.Context, change metadata.TopicChange) error {
	return s.changeOrCheck(ctx, change.Validate, func(d *document) error {
		index, err := d.changeable(change.Name, "change")
		if err != nil {
			return err
		}
		altered, err := metadata.AlteredTopic(d.Topics[index].resource(), change, d.resource())
		if err != nil {
			return err
		}
		return d.put(altered, originKafka)
	})
}

// AlterCluster implements metadata.Alterer. It rejects a change of a LogCluster that has a manifest
// (ADR 0160). Without a manifest, the first change creates a LogCluster.
func (s *Store) AlterCluster(ctx context.Context, change metadata.ClusterChange) error {
	return s.changeOrCheck(ctx, change.Validate, func(d *document) error {
		return d.alterCluster(change, s.checkCluster)
	})
}

func (d *document) alterCluster(change metadata.ClusterChange,
	check func(*v1alpha1.LogCluster) error) error {
	if d.Cluster != nil && d.Cluster.Origin != originKafka {
		return fmt.Errorf("%w: the LogCluster has a manifest, which would revert the change: "+
			"change LogCluster/%s in the manifest", metadata.ErrPolicy, d.Cluster.Name)
	}
	before := d.resource()
	if before == nil {
		before = &v1alpha1.LogCluster{}
		before.Name, before.Spec.Brokers = clusterNameDefault, int32(d.Brokers)
	}
	altered, err := metadata.AlteredCluster(before, change)
	if err != nil {
		return err
	}
	if check != nil {
		if err := check(altered); err != nil {
			return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
		}
	}
	topics := make([]*v1alpha1.Topic, 0, len(d.Topics))
	for _, t := range d.Topics {
		topics = append(topics, t.resource())
	}
	if err := metadata.CheckTopics(topics, before, altered); err != nil {
		return err
	}
	d.Cluster = &cluster{Name: altered.Name, Spec: altered.Spec, Origin: originKafka}
	if len(metadata.ClusterProperties(altered)) == 0 &&
		len(metadata.ResolveGroupOverrides(altered)) == 0 {
		d.Cluster = nil
	}
	if err := d.drain(); err != nil { // called because the default number of replicas may have changed
		return fmt.Errorf("%w: %w", metadata.ErrInvalidSettings, err)
	}
	return nil
}

// CreatePartitions implements metadata.Alterer.
func (s *Store) CreatePartitions(ctx context.Context,
	partitions metadata.NewPartitions) error {
	return s.changeOrCheck(ctx, partitions.Validate, func(d *document) error {
		index, err := d.changeable(partitions.Name, "change")
		if err != nil {
			return err
		}
		grown, err := metadata.GrownTopic(d.Topics[index].resource(), partitions, d.resource(),
			d.states(s.changing.up))
		if err != nil {
			return err
		}
		return d.put(grown, originKafka)
	})
}

// changeOrCheck makes a change. If check is set, it only validates the change, on a copy of the
// document that it then discards.
func (s *Store) changeOrCheck(ctx context.Context, check bool, f func(*document) error) error {
	return s.request(ctx, func() error {
		if !check {
			return s.change(f)
		}
		s.changing.Lock()
		defer s.changing.Unlock()
		d := s.changing.document.clone()
		d.full = s.fullBrokers()
		return f(&d)
	})
}

// changeable returns the index of a topic that admin clients want to change or delete. verb names
// the operation in the error. changeable fails if the topic does not exist, or if a manifest
// contains it: the next start, or the next save of the file, would revert the change or create the
// topic again (ADR 0160).
func (d *document) changeable(name, verb string) (index int, err error) {
	index, exists := d.find(name)
	switch {
	case !exists:
		return index, fmt.Errorf("%w: %q", metadata.ErrTopicNotFound, name)
	case d.Topics[index].Origin == originManifest && d.described[name]:
		return index, fmt.Errorf("%w: topic %q has a manifest, which would revert this: %s Topic/%s in "+
			"the manifest", metadata.ErrPolicy, name, verb, d.Topics[index].Name)
	}
	return index, nil
}

// Reassign implements metadata.Mover. It also accepts topics that are in a manifest, because
// manifests contain no assignments. But it does not change the number of replicas of such topics.
func (s *Store) Reassign(ctx context.Context, moves []metadata.Move) []error {
	faults := make([]error, len(moves))
	err := s.request(ctx, func() error {
		return s.change(func(d *document) error {
			var numbers map[string]int32
			numbers, faults = metadata.ReplicaNumbers(moves, d.topicResource, d.resource())
			for i, move := range moves {
				if faults[i] == nil {
					faults[i] = d.checkMove(move, numbers)
				}
			}
			d.changeNumbers(moves, numbers, faults)
			for i, move := range moves {
				if faults[i] == nil {
					d.reassign(move)
				}
			}
			return nil
		})
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(moves))
	}
	return faults
}

// topicResource returns a topic's resource, or nil if the topic does not exist.
func (d *document) topicResource(name string) *v1alpha1.Topic {
	index, exists := d.find(name)
	if !exists {
		return nil
	}
	return d.Topics[index].resource()
}

// checkMove validates a move. numbers contains the topics that also get another number of replicas.
func (d *document) checkMove(move metadata.Move, numbers map[string]int32) error {
	if _, err := d.target(move); err != nil {
		return err
	}
	number, changes := numbers[move.Topic]
	if !changes {
		return nil
	}
	if _, err := d.changeable(move.Topic, "change spec.replicas of"); err != nil {
		return err
	}
	_, err := metadata.WithReplicas(d.topicResource(move.Topic), number, d.resource())
	return err
}

// changeNumbers changes topics' numbers of replicas. If it rejects one of a topic's moves, it also
// rejects the others, because they would leave the partitions with different numbers of replicas.
func (d *document) changeNumbers(moves []metadata.Move, numbers map[string]int32, faults []error) {
	for name, number := range numbers {
		var refused error
		for i, move := range moves {
			if move.Topic == name && refused == nil {
				refused = faults[i]
			}
		}
		for i, move := range moves {
			if move.Topic == name && faults[i] == nil {
				faults[i] = refused
			}
		}
		if index, exists := d.find(name); exists && refused == nil {
			d.Topics[index].Spec.Replicas = &number
		}
	}
}

// target returns the assignment that a move requests.
func (d *document) target(move metadata.Move) ([]int32, error) {
	index, exists := d.find(move.Topic)
	if !exists || move.Partition < 0 || move.Partition >= d.Topics[index].Spec.Partitions {
		return nil, fmt.Errorf("%w: %s-%d", metadata.ErrUnknownPartition, move.Topic,
			move.Partition)
	}
	p := d.placed(d.Topics[index].key(move.Partition))
	return metadata.CheckMove(&metadata.Partition{Replicas: p.Replicas, Target: p.Target}, move,
		func(id int32) bool { return id >= 0 && int(id) < d.Brokers })
}

// reassign changes a partition's assignment according to a valid move; decide then carries out the
// reassignment. If the partition never had a leader, it has no records, so reassign replaces its
// replicas at once.
func (d *document) reassign(move metadata.Move) {
	target, err := d.target(move)
	if err != nil {
		return // does not happen, because checkMove has accepted the move
	}
	index, _ := d.find(move.Topic)
	key := d.Topics[index].key(move.Partition)
	fresh := d.placed(key).LeaderEpoch == 0
	d.assignPartition(key, d.Topics[index].assignment(target))
	if fresh {
		d.set.RemoveState(key)
	}
}

// ElectPreferred implements metadata.Mover.
func (s *Store) ElectPreferred(ctx context.Context, partitions []metadata.PartitionRef) []error {
	faults := make([]error, len(partitions))
	image := s.Image()
	requested := map[partitionset.Key]bool{}
	for i, ref := range partitions {
		_, p, err := image.Partition(ref)
		if err == nil {
			err = metadata.CheckPreferred(image, p)
		}
		if faults[i] = err; err == nil {
			requested[partitionset.Key{Topic: ref.Topic, Index: ref.Partition}] = true
		}
	}
	if len(requested) == 0 {
		return faults
	}
	err := s.request(ctx, func() error {
		s.changing.Lock()
		defer s.changing.Unlock()
		return s.changeLocked(electionOptions{preferredFor: requested},
			func(*document) error { return nil })
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(partitions))
	}
	return faults
}
