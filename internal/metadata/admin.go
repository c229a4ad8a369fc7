package metadata

import (
	"context"
	"errors"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// What changes of topics fail with, besides the errors of Admin.
var (
	// ErrPolicy: the change is possible, and somebody decided that it is not to be made this way.
	ErrPolicy               = errors.New("not allowed through Kafka's admin API")
	ErrUnknownPartition     = errors.New("unknown partition")
	ErrInvalidAssignment    = errors.New("invalid replica assignment")
	ErrNoReassignment       = errors.New("no reassignment is in progress")
	ErrElectionNotNeeded    = errors.New("the preferred replica leads already")
	ErrPreferredUnavailable = errors.New("the preferred replica cannot lead now")
)

// AdminPolicy is what a cluster lets Kafka's clients do to its resources.
type AdminPolicy struct {
	ReadOnly   bool // admin requests change nothing
	AutoCreate bool // a topic that a client asks for, and allows to be made, is made
}

// ResolvePolicy returns what a LogCluster says, which may be nil.
func ResolvePolicy(cluster *v1alpha1.LogCluster) AdminPolicy {
	if cluster == nil {
		return AdminPolicy{}
	}
	return AdminPolicy{ReadOnly: cluster.Spec.AdminAPI == v1alpha1.AdminReadOnly,
		AutoCreate: cluster.Spec.AutoCreateTopics}
}

// WithPolicies adds to an image what the LogCluster, which may be nil, says of what clients see and
// may do, of replication and of groups. Defaults that make no sense are told by the topics that
// fail with them.
func (i *Image) WithPolicies(cluster *v1alpha1.LogCluster) *Image {
	i.Policy, i.Replication, i.Groups = ResolvePolicy(cluster), ResolveReplication(cluster),
		ResolveGroups(cluster)
	if defaults, err := ResolveSettings(v1alpha1.TopicSettings{}, cluster); err == nil {
		i.Defaults = defaults
	}
	return i
}

// PropertyOp is what is to be done to a property; the numbers are Kafka's (KIP-339).
type PropertyOp int8

// The operations. Append and Subtract are for lists.
const (
	PropertySet      PropertyOp = 0
	PropertyDelete   PropertyOp = 1 // back to the default
	PropertyAppend   PropertyOp = 2
	PropertySubtract PropertyOp = 3
)

// PropertyChange is one change of one property, under its Kafka name.
type PropertyChange struct {
	Name  string
	Op    PropertyOp
	Value string
}

// TopicChange asks for other settings of a topic, all or none of them.
type TopicChange struct {
	Name       string
	Properties []PropertyChange
	// what Properties does not name goes back to its default; settings without a Kafka name stay
	Replace  bool
	Validate bool // only check
}

// NewPartitions asks for more partitions.
type NewPartitions struct {
	Name     string
	Count    int32 // of all partitions then
	Validate bool  // only check
}

// Alterer changes topics on behalf of Kafka admin clients: what the Topic resource says, and
// nothing else. Both return once that is recorded; brokers follow with a later image.
// ErrTopicNotFound, ErrPolicy, ErrInvalidSettings and ErrInvalidPartitions are wrapped.
type Alterer interface {
	AlterTopic(ctx context.Context, change TopicChange) error
	CreatePartitions(ctx context.Context, partitions NewPartitions) error
}

// Move asks for other brokers to hold a partition.
type Move struct {
	Topic     string
	Partition int32
	// as many as the topic has, the preferred leader first; nil: where they were before the move
	// under way
	Replicas []int32
}

// Mover places partitions on behalf of Kafka admin clients. Both return once it is recorded, with
// an error for each that was asked.
type Mover interface {
	// Reassign wraps ErrUnknownPartition, ErrInvalidAssignment and ErrNoReassignment.
	Reassign(ctx context.Context, moves []Move) []error
	// ElectPreferred asks for the first replica to lead. It wraps ErrUnknownPartition,
	// ErrElectionNotNeeded and ErrPreferredUnavailable. The election may come after it returns.
	ElectPreferred(ctx context.Context, partitions []PartitionRef) []error
}

// PartitionRef names a partition.
type PartitionRef struct {
	Topic     string
	Partition int32
}

// destination is where the replicas are to be.
func (p *Partition) destination() []int32 {
	if p.Target != nil {
		return p.Target
	}
	return p.Replicas
}

// origin is where the replicas were before the move under way: those that came in addition stand
// behind them.
func (p *Partition) origin() []int32 {
	return p.Replicas[:min(len(p.Replicas),
		len(p.destination()))]
}

// Moving tells which brokers a move under way adds and which it takes the partition from; both are
// empty without one.
func (p *Partition) Moving() (adding, removing []int32) {
	without := func(ids, others []int32) (rest []int32) {
		for _, id := range ids {
			if !slices.Contains(others, id) {
				rest = append(rest, id)
			}
		}
		return rest
	}
	return without(p.destination(), p.origin()), without(p.Replicas, p.destination())
}

// preferred is the broker that should lead, NoBroker for a partition without replicas.
func (p *Partition) preferred() int32 {
	if replicas := p.destination(); len(replicas) > 0 {
		return replicas[0]
	}
	return NoBroker
}

// LedByPreferred tells whether a partition's preferred replica leads it.
func LedByPreferred(p *Partition) bool { return p.Leader == p.preferred() }

// AssignedTo tells whether a partition is on those replicas, or moves there.
func AssignedTo(p *Partition, replicas []int32) bool {
	return slices.Equal(p.destination(),
		replicas)
}

// CheckMove returns the replicas that a move asks for. known tells whether there is a broker of an
// id, up or not.
func CheckMove(p *Partition, move Move, known func(id int32) bool) ([]int32, error) {
	wanted := move.Replicas
	switch {
	case wanted == nil && p.Target == nil:
		return nil, ErrNoReassignment
	case wanted == nil:
		return slices.Clone(p.origin()), nil
	case len(wanted) != len(p.destination()):
		return nil, errorf(
			ErrInvalidAssignment,
			"%d replicas, the topic has %d: their number is its replication factor, which its resource says",
			len(wanted),
			len(p.destination()),
		)
	}
	for i, id := range wanted {
		switch {
		case slices.Contains(wanted[:i], id):
			return nil, errorf(ErrInvalidAssignment, "broker %d holds at most one replica", id)
		case !known(id):
			return nil, errorf(ErrInvalidAssignment, "there is no broker %d", id)
		}
	}
	return slices.Clone(wanted), nil
}

// CheckPreferred tells whether a partition's preferred replica should be asked to lead, as an image
// shows both.
func CheckPreferred(image *Image, p *Partition) error {
	preferred := p.preferred()
	broker, up := image.Broker(preferred)
	switch {
	case p.Leader == preferred && up:
		return ErrElectionNotNeeded
	case !up || broker.Leaving || !slices.Contains(p.ISR, preferred):
		return errorf(ErrPreferredUnavailable, "broker %d is down, leaves, or is not in sync",
			preferred)
	}
	return nil
}

// Partition finds a partition by the names that clients use; ErrUnknownPartition is its error.
func (i *Image) Partition(ref PartitionRef) (*Topic, *Partition, error) {
	topic := i.Topic(ref.Topic)
	if topic == nil || ref.Partition < 0 || int(ref.Partition) >= len(topic.Partitions) {
		return nil, nil, errorf(ErrUnknownPartition, "%s-%d", ref.Topic, ref.Partition)
	}
	return topic, topic.Partitions[ref.Partition], nil
}
