package local

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// planned is the future content of a partition's entry.
type planned struct {
	replicas []int32             // assigned replicas
	state    *partitionset.State // state of the partition; nil if the partition is new
}

// hasRecords reports whether a replica may have records.
func (p planned) hasRecords() bool { return p.state != nil && p.state.LeaderEpoch > 0 }

// plannedOf returns a topic's partitions as they are, without changes.
func (d *document) plannedOf(t topic) []planned {
	plan := make([]planned, 0, t.Spec.Partitions)
	for i := range t.Spec.Partitions {
		entry, _ := d.set.Get(t.key(i))
		plan = append(plan, planned{entry.Assignment.Replicas, entry.State})
	}
	return plan
}

// apply writes a topic's partitions. If the replicas of a partition without records have changed,
// apply removes the partition's state, so that the next election takes place on the new replicas.
func (d *document) apply(t topic, plan []planned) {
	for i, p := range plan {
		key := t.key(int32(i))
		d.assignPartition(key, t.assignment(p.replicas))
		switch {
		case p.hasRecords(), p.state != nil && slices.Equal(p.state.Replicas, p.replicas):
			d.set.PutState(key, *p.state)
		default:
			d.set.RemoveState(key)
		}
	}
}

// fitReplicas changes the assignments so that each of a topic's partitions has the requested number
// of replicas, on brokers that will not be removed. It fails if there are too few brokers.
func (d *document) fitReplicas(t topic, plan []planned) error {
	replicas := metadata.Replicas(t.Spec.TopicSettings, d.resource())
	assignments := make([][]int32, len(plan))
	fits := true
	for i, p := range plan {
		assignments[i] = p.replicas
		fits = fits && len(p.replicas) == replicas && int(slices.Max(p.replicas)) < d.Brokers
	}
	if fits {
		return nil
	}
	fitted, err := placement.Fit(d.placementBrokers(t), d.load, assignments, replicas)
	if err != nil {
		return fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
	}
	for i, ids := range fitted {
		plan[i].replicas = ids
	}
	return nil
}

// grow appends a topic's missing partitions, on brokers chosen by assign. Existing partitions keep
// their brokers. grow fails with metadata.ErrInvalidPartitions if the topic would shrink, with
// metadata.ErrInvalidReplication if there are too few brokers, and with
// metadata.ErrInvalidAssignment if the topic's initial replicas are invalid.
func (d *document) grow(t *topic, plan []planned) ([]planned, error) {
	existing := len(plan)
	missing := int(t.Spec.Partitions) - existing
	if missing < 0 {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf(
				"the topic has %d partitions; their number cannot be reduced, because records would be lost",
				existing,
			),
		)
		return nil, fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	// This can happen if the topic was created through Kafka and is now in a manifest.
	if missing > 0 && existing > 0 && metadata.InternalTopic(t.kafkaName()) {
		fault := field.Invalid(
			field.NewPath("spec", "partitions"),
			t.Spec.Partitions,
			fmt.Sprintf("the topic has %d partitions; another number would assign groups to other "+
				"partitions, which do not have their offsets", existing),
		)
		return nil, fmt.Errorf("%w (%w)", fault, metadata.ErrInvalidPartitions)
	}
	if err := d.checkRemovals(*t, existing); err != nil {
		return nil, err
	}
	plan, err := d.assign(t, plan)
	if err != nil {
		return nil, err
	}
	// These partitions now have their initial replicas. Keep the entries of later partitions.
	t.Spec.InitialReplicas = slices.DeleteFunc(slices.Clone(t.Spec.InitialReplicas),
		func(r v1alpha1.InitialReplicas) bool { return r.Partition < t.Spec.Partitions })
	d.adoptRetained(*t, plan, existing)
	return plan, nil
}

// assign appends new partitions to a topic. If the topic has an entry for a partition, the
// partition gets the replicas in the entry. Otherwise placement.Assign chooses the replicas.
func (d *document) assign(t *topic, plan []planned) ([]planned, error) {
	first := int32(len(plan))
	initial, err := metadata.InitialReplicas(&t.Spec, d.resource(), int32(d.Brokers),
		func(index int32) bool { return index >= first && index < t.Spec.Partitions })
	if err != nil {
		return nil, err
	}
	load := maps.Clone(d.load)
	add := func(ids []int32) {
		plan = append(plan, planned{replicas: ids})
		for _, id := range ids {
			load[id]++
		}
	}
	for index := first; index < t.Spec.Partitions; index = int32(len(plan)) {
		if ids := initial[index]; ids != nil {
			add(ids)
			continue
		}
		next := index
		for next < t.Spec.Partitions && initial[next] == nil {
			next++
		}
		placed, err := placement.Assign(d.placementBrokers(*t), load, int(index), int(next-index),
			metadata.Replicas(t.Spec.TopicSettings, d.resource()))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", metadata.ErrInvalidReplication, err)
		}
		for _, ids := range placed {
			add(ids)
		}
	}
	return plan, nil
}

// adoptRetained replaces the partitions with index first and above with the retained partitions of
// a deleted topic of the same name. It replaces a partition only if a broker that was in sync with
// the retained partition still exists. Otherwise the new partition starts empty on other brokers.
// The retained data are then not adopted later, because a partition must not have two sets of data.
// If the topic has fewer partitions than were retained, the remaining retained partitions are kept
// in case the topic grows.
func (d *document) adoptRetained(t topic, plan []planned, first int) {
	for i := first; i < len(plan); i++ {
		entry, exists := d.set.Get(t.key(int32(i)))
		if !exists {
			continue
		}
		if adopted, ok := onBrokers(entry, d.running()); ok {
			plan[i] = adopted
		}
	}
}

// placementBrokers returns all brokers, up or down, because the placement of a topic must not
// depend on which brokers are up. Brokers whose volumes are almost full get no new replicas, except
// replicas of internal topics, which need little space.
func (d *document) placementBrokers(target topic) []placement.Broker {
	internal := metadata.InternalTopic(target.kafkaName())
	brokers := make([]placement.Broker, d.Brokers)
	for i := range brokers {
		brokers[i].ID, brokers[i].Full = int32(i), d.full[int32(i)] && !internal
		brokers[i].Cordoned = d.resource() != nil && !d.resource().Spec.MayReceive(int32(i))
		if len(d.Racks) > 0 {
			brokers[i].Rack = d.Racks[i%len(d.Racks)]
		}
	}
	return brokers
}
