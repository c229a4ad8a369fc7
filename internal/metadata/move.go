package metadata

import (
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// CheckMove validates a move and returns the assignment that it requests. It does not check the
// number of replicas; ReplicaNumbers does. known reports whether the broker with the given id
// exists, up or down.
func CheckMove(p *Partition, move Move, known func(id int32) bool) ([]int32, error) {
	target := move.Replicas
	switch {
	case target == nil && p.Target == nil:
		return nil, ErrNoReassignment
	case target == nil && slices.Equal(p.origin(), p.Target):
		return nil, errorf(ErrInvalidAssignment, "the reassignment changes the number of replicas "+
			"and is not cancelled: reassign all partitions of the topic to the former number")
	case target == nil:
		return slices.Clone(p.origin()), nil
	}
	return slices.Clone(target), checkReplicas(target, known)
}

// ReplicaNumbers returns the topics whose number of replicas the moves change, with the new number.
// It also returns an error for each move that must not change the number. The number is a field of
// the topic's resource and applies to all partitions. So one request must move all partitions to
// the same number. Otherwise the operator would add or remove replicas of the other partitions, on
// brokers that the client has not chosen. find returns a topic's resource, or nil if the topic does
// not exist.
func ReplicaNumbers(moves []Move, find func(topic string) *v1alpha1.Topic,
	cluster *v1alpha1.LogCluster) (numbers map[string]int32, faults []error) {
	numbers, faults = map[string]int32{}, make([]error, len(moves))
	byTopic := map[string][]int{}
	for i, move := range moves {
		if move.Replicas != nil {
			byTopic[move.Topic] = append(byTopic[move.Topic], i)
		}
	}
	for name, indexes := range byTopic {
		topic := find(name)
		if topic == nil {
			continue // the caller rejects the move of an unknown partition
		}
		present := Replicas(topic.Spec.TopicSettings, cluster)
		differs := func(i int) bool { return len(moves[i].Replicas) != present }
		first := slices.IndexFunc(indexes, differs)
		if first < 0 {
			continue
		}
		number := len(moves[indexes[first]].Replicas)
		err := checkNumber(moves, indexes, topic, number, present)
		if err == nil {
			numbers[name] = int32(number)
			continue
		}
		for _, i := range indexes {
			if differs(i) {
				faults[i] = err
			}
		}
	}
	return numbers, faults
}

// checkNumber checks that the moves with the given indexes may change a topic's number of replicas.
func checkNumber(moves []Move, indexes []int, topic *v1alpha1.Topic, number, present int) error {
	if number < 1 {
		return errorf(ErrInvalidAssignment, "a partition needs at least one replica")
	}
	moved := map[int32]bool{}
	for _, i := range indexes {
		switch partition := moves[i].Partition; {
		case moves[i].SameNumber:
			return errorf(ErrInvalidReplication, "the request forbids to change the number of "+
				"replicas, from %d to %d", present, number)
		case len(moves[i].Replicas) == number && partition >= 0 &&
			partition < topic.Spec.Partitions:
			moved[partition] = true
		}
	}
	if len(moved) < len(indexes) || len(moved) < int(topic.Spec.Partitions) {
		return errorf(ErrInvalidAssignment, "spec.replicas of Topic %s is %d and applies to all "+
			"partitions: to change it to %d, assign %d replicas to each of the %d partitions in one "+
			"request", topic.Name, present, number, number, topic.Spec.Partitions)
	}
	return nil
}

// WithReplicas returns a copy of the Topic resource with another number of replicas.
func WithReplicas(topic *v1alpha1.Topic, number int32,
	cluster *v1alpha1.LogCluster) (*v1alpha1.Topic, error) {
	altered := topic.DeepCopy()
	altered.Spec.Replicas = &number
	if err := CheckReplicas(altered.Spec.TopicSettings, cluster); err != nil {
		return nil, errorf(ErrInvalidReplication, "%v", err)
	}
	return altered, nil
}
