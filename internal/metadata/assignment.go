package metadata

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// replicasMax is the maximum number of replicas of a partition that the schemas allow.
const replicasMax = 15

// Brokers reports the states of brokers. It is used to validate an assignment.
type Brokers struct {
	Exists func(id int32) bool // reports whether the broker exists, up or down
	Up     func(id int32) bool // reports whether the broker is up and not in controlled shutdown
}

// CheckAssignment validates the replicas that a client assigns to new partitions, by Kafka's rules.
// first is the index of the first partition, and replicas is the number of replicas that each
// partition must have. The errors wrap ErrInvalidAssignment.
func CheckAssignment(assigned [][]int32, first, replicas int, brokers Brokers) error {
	for i, ids := range assigned {
		partition := first + i
		switch {
		case len(ids) == 0:
			return errorf(ErrInvalidAssignment, "partition %d has no replicas", partition)
		case len(ids) > replicasMax:
			return errorf(ErrInvalidAssignment, "partition %d has %d replicas, at most %d are allowed",
				partition, len(ids), replicasMax)
		}
		if err := checkReplicas(ids, brokers.Exists); err != nil {
			return fmt.Errorf("%w (partition %d)", err, partition)
		}
		switch {
		case len(ids) != replicas:
			return errorf(ErrInvalidAssignment, "partition %d has %d replicas, the others have %d",
				partition, len(ids), replicas)
		case !slices.ContainsFunc(ids, brokers.Up):
			return errorf(ErrInvalidAssignment,
				"all brokers of partition %d are down or in a controlled shutdown", partition)
		}
	}
	return nil
}

// checkReplicas checks that a partition's replicas are on different brokers, and that the brokers
// exist.
func checkReplicas(ids []int32, exists func(id int32) bool) error {
	for i, id := range ids {
		switch {
		case slices.Contains(ids[:i], id):
			return errorf(ErrInvalidAssignment, "broker %d is named more than once", id)
		case !exists(id):
			return errorf(ErrInvalidAssignment, "broker %d does not exist", id)
		}
	}
	return nil
}

// initialReplicas returns the spec.initialReplicas of a Topic for assigned partitions. first is the
// index of the first partition.
func initialReplicas(assigned [][]int32, first int32) []v1alpha1.InitialReplicas {
	var entries []v1alpha1.InitialReplicas
	for i, ids := range assigned {
		entries = append(entries,
			v1alpha1.InitialReplicas{Partition: first + int32(i), Replicas: ids})
	}
	return entries
}

// InitialReplicas returns the replicas that a Topic's spec.initialReplicas assigns to new
// partitions, by partition index. isNew reports whether the topic needs a partition that has never
// existed. Entries of other partitions are ignored: either the partition already has replicas,
// which may have moved since, or the topic does not have so many partitions yet. brokers is the
// number of brokers, up or down. The error wraps ErrInvalidAssignment and begins with the path of
// the field.
func InitialReplicas(spec *v1alpha1.TopicSpec, cluster *v1alpha1.LogCluster, brokers int32,
	isNew func(partition int32) bool) (map[int32][]int32, error) {
	assigned := map[int32][]int32{}
	replicas := Replicas(spec.TopicSettings, cluster)
	for i, entry := range spec.InitialReplicas {
		if !isNew(entry.Partition) {
			continue
		}
		path := field.NewPath("spec", "initialReplicas").Index(i)
		invalid := func(fault *field.Error) error { return &kindError{fault, ErrInvalidAssignment} }
		switch {
		case assigned[entry.Partition] != nil:
			return nil, invalid(field.Duplicate(path.Child("partition"), entry.Partition))
		case len(entry.Replicas) != replicas:
			return nil, invalid(field.Invalid(path.Child("replicas"), entry.Replicas, fmt.Sprintf(
				"%d brokers are named, but the topic has %d replicas", len(entry.Replicas), replicas)))
		}
		if err := checkReplicas(entry.Replicas,
			func(id int32) bool { return id >= 0 && id < brokers }); err != nil {
			return nil, invalid(field.Invalid(path.Child("replicas"), entry.Replicas, err.Error()))
		}
		assigned[entry.Partition] = entry.Replicas
	}
	return assigned, nil
}
