package handler

import (
	"context"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// Reassign implements metadata.Mover. Reassignments start but never complete.
func (b *broker) Reassign(_ context.Context, moves []metadata.Move) []error {
	_, faults := metadata.ReplicaNumbers(moves, b.resource, nil)
	for i, move := range moves {
		_, p, err := b.image.Load().Partition(metadata.PartitionRef{Topic: move.Topic,
			Partition: move.Partition})
		if err == nil && len(p.Replicas) == 0 {
			err = metadata.ErrInvalidAssignment
		}
		if err == nil {
			err = faults[i]
		}
		if err == nil {
			_, err = metadata.CheckMove(p, move,
				func(id int32) bool { return id == self || id == 3 })
		}
		if faults[i] = err; err == nil {
			faults[i] = b.replace(move.Topic, func(topic *metadata.Topic) error {
				topic.Partitions = slices.Clone(topic.Partitions)
				moved := *topic.Partitions[move.Partition]
				if moved.Target = move.Replicas; move.Replicas != nil {
					moved.Replicas = append(slices.Clone(moved.Replicas), move.Replicas...)
				}
				topic.Partitions[move.Partition] = &moved
				return nil
			})
		}
	}
	return faults
}

// resource returns a topic's resource, or nil if the topic does not exist.
func (b *broker) resource(name string) *v1alpha1.Topic {
	topic := b.image.Load().Topic(name)
	if topic == nil {
		return nil
	}
	resource := &v1alpha1.Topic{}
	resource.Name, resource.Spec.Partitions = name, int32(len(topic.Partitions))
	resource.Spec.Replicas = new(int32(len(topic.Partitions[0].Replicas)))
	return resource
}
