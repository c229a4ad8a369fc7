package metadata

import (
	"context"
	"errors"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// These are errors of changes to topics and partitions, in addition to the errors of Admin.
var (
	// ErrPolicy means that the change is possible, but not through Kafka's admin API.
	ErrPolicy = errors.New("not allowed through Kafka's admin API")
	// ErrInvalidProperty means that a broker setting cannot be changed, or cannot have the requested
	// value.
	ErrInvalidProperty      = errors.New("invalid change of a broker setting")
	ErrUnknownPartition     = errors.New("unknown partition")
	ErrInvalidAssignment    = errors.New("invalid replica assignment")
	ErrNoReassignment       = errors.New("no reassignment is in progress")
	ErrElectionNotNeeded    = errors.New("the preferred replica already leads")
	ErrPreferredUnavailable = errors.New("the preferred replica cannot lead now")
)

// AdminPolicy determines which changes Kafka's clients may make to a cluster's resources.
type AdminPolicy struct {
	ReadOnly bool // true if admin requests are rejected
	// AutoCreate is true if a Metadata request creates a missing topic, provided that the request
	// allows it.
	AutoCreate bool
}

// ResolvePolicy returns a LogCluster's policy. cluster may be nil.
func ResolvePolicy(cluster *v1alpha1.LogCluster) AdminPolicy {
	if cluster == nil {
		return AdminPolicy{}
	}
	autoCreate := cluster.Spec.AutoCreateTopics
	return AdminPolicy{ReadOnly: cluster.Spec.AdminAPI == v1alpha1.AdminReadOnly,
		AutoCreate: autoCreate != nil && *autoCreate}
}

// WithPolicies sets the image's default topic settings, and its policies for admin requests,
// replication, groups, storage, metrics, logs and the scrub. It reads them from the LogCluster,
// which may be nil, and returns the image itself. It ignores invalid topic defaults, because each
// topic that is invalid because of them reports the error.
func (i *Image) WithPolicies(cluster *v1alpha1.LogCluster) *Image {
	i.Policy, i.Replication, i.Groups = ResolvePolicy(cluster), ResolveReplication(cluster),
		ResolveGroups(cluster)
	i.FormatLevel = ResolveFormatLevel(cluster)
	i.ClusterProperties = ClusterProperties(cluster)
	i.Transactions, i.Pressure = ResolveTransactions(cluster), ResolvePressure(cluster)
	i.GroupOverrides, i.Metrics = ResolveGroupOverrides(cluster), ResolveMetrics(cluster)
	i.LogLevel, i.Scrub = ResolveLogLevel(cluster), ResolveScrub(cluster)
	i.ScrubNow = resolveScrubRequest(cluster)
	if defaults, err := resolve(v1alpha1.TopicSettings{}, cluster); err == nil {
		i.Defaults = defaults
	}
	return i
}

// PropertyOp is an operation on a property. The values are Kafka's numbers (KIP-339).
type PropertyOp int8

// These are the operations. PropertyAppend and PropertySubtract apply only to properties that are
// lists.
const (
	PropertySet      PropertyOp = 0
	PropertyDelete   PropertyOp = 1 // restoration of the default
	PropertyAppend   PropertyOp = 2
	PropertySubtract PropertyOp = 3
)

// PropertyChange is a change of one property, identified by its Kafka name.
type PropertyChange struct {
	Name  string
	Op    PropertyOp
	Value string
}

// TopicChange is a request to change a topic's settings. Either the whole change is applied, or
// nothing.
type TopicChange struct {
	Name       string
	Properties []PropertyChange
	// Replace resets each property that is not in Properties to its default. Settings without a Kafka
	// name keep their values.
	Replace  bool
	Validate bool // true if the change is only checked, and not applied
}

// ClusterChange is a request to change settings of the LogCluster, by the Kafka names of broker
// settings. Either the whole change is applied, or nothing.
type ClusterChange struct {
	// Group is the id of a group. If it is not "", the request changes configs of this group, such as
	// consumer.session.timeout.ms, instead of broker settings.
	Group      string
	Properties []PropertyChange
	Replace    bool // true if each alterable setting that is not in Properties is reset
	Validate   bool // true if the change is only checked, and not applied
}

// NewPartitions is a request to add partitions.
type NewPartitions struct {
	Name  string
	Count int32 // total number of partitions after the change
	// Assignment contains the replicas of each added partition, the preferred leader first. If it is
	// nil, package placement chooses the replicas.
	Assignment [][]int32
	Validate   bool // true if the change is only checked, and not applied
}

// Alterer changes topics and the cluster for Kafka admin clients, by changing their resources. Each
// method returns when the change is stored; brokers apply the change with a later image. The errors
// wrap ErrTopicNotFound, ErrPolicy, ErrInvalidSettings, ErrInvalidProperty, ErrInvalidPartitions or
// ErrInvalidAssignment.
type Alterer interface {
	// AlterCluster changes the LogCluster. It fails if a valid topic would become invalid.
	AlterCluster(ctx context.Context, change ClusterChange) error
	AlterTopic(ctx context.Context, change TopicChange) error
	CreatePartitions(ctx context.Context, partitions NewPartitions) error
}

// Move is a request to reassign a partition.
type Move struct {
	Topic     string
	Partition int32
	// Replicas is the new assignment, with the preferred leader first. nil cancels the current
	// reassignment.
	Replicas []int32
	// SameNumber is true if the number of replicas must not change (KIP-860).
	SameNumber bool
}

// Mover reassigns partitions and elects leaders for Kafka admin clients. Each method returns when
// the requests are stored. It returns one error per request; a nil error means success.
type Mover interface {
	// Reassign starts or cancels reassignments. If the moves change the number of replicas of all
	// partitions of a topic, Reassign also changes the number in the topic's resource. The errors wrap
	// ErrUnknownPartition, ErrInvalidAssignment, ErrInvalidReplication, ErrPolicy or
	// ErrNoReassignment.
	Reassign(ctx context.Context, moves []Move) []error
	// ElectPreferred requests the election of the preferred leader, which is the first replica. The
	// election may happen after ElectPreferred has returned. The errors wrap ErrUnknownPartition,
	// ErrElectionNotNeeded or ErrPreferredUnavailable.
	ElectPreferred(ctx context.Context, partitions []PartitionRef) []error
}

// PartitionRef identifies a partition by topic and index.
type PartitionRef struct {
	Topic     string
	Partition int32
}

// destination returns the assignment after the current reassignment, or the current assignment if
// no reassignment is in progress.
func (p *Partition) destination() []int32 {
	if p.Target != nil {
		return p.Target
	}
	return p.Replicas
}

// origin returns the assignment before the current reassignment. It is the first part of Replicas,
// because a reassignment appends the replicas that it adds.
func (p *Partition) origin() []int32 {
	return p.Replicas[:min(len(p.Replicas),
		len(p.destination()))]
}

// Moving returns the brokers that the current reassignment adds and removes. Both lists are empty
// if no reassignment is in progress.
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

// preferred returns the preferred leader, or NoBroker for a partition without replicas.
func (p *Partition) preferred() int32 {
	if replicas := p.destination(); len(replicas) > 0 {
		return replicas[0]
	}
	return NoBroker
}

// LedByPreferred reports whether the preferred leader leads the partition.
func LedByPreferred(p *Partition) bool { return p.Leader == p.preferred() }

// AssignedTo reports whether replicas is the partition's assignment or, during a reassignment, its
// target assignment.
func AssignedTo(p *Partition, replicas []int32) bool {
	return slices.Equal(p.destination(),
		replicas)
}

// CheckPreferred returns nil if, according to the image, the partition's preferred leader can be
// elected. Otherwise it returns the reason as an error.
func CheckPreferred(image *Image, p *Partition) error {
	preferred := p.preferred()
	broker, up := image.Broker(preferred)
	switch {
	case p.Leader == preferred && up:
		return ErrElectionNotNeeded
	case !up || broker.Leaving || !slices.Contains(p.ISR, preferred):
		return errorf(ErrPreferredUnavailable, "broker %d is down, shutting down, or not in sync",
			preferred)
	}
	return nil
}

// Partition returns a partition and its topic. The error wraps ErrUnknownPartition.
func (i *Image) Partition(ref PartitionRef) (*Topic, *Partition, error) {
	topic := i.Topic(ref.Topic)
	if topic == nil || ref.Partition < 0 || int(ref.Partition) >= len(topic.Partitions) {
		return nil, nil, errorf(ErrUnknownPartition, "%s-%d", ref.Topic, ref.Partition)
	}
	return topic, topic.Partitions[ref.Partition], nil
}
