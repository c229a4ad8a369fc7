package metadata

import (
	"context"
	"errors"
)

// Errors of a Store's changes; handler maps each to a Kafka error code.
var (
	ErrTopicExists        = errors.New("topic exists")
	ErrTopicNotFound      = errors.New("topic not found")
	ErrInvalidTopicName   = errors.New("invalid topic name")
	ErrInvalidPartitions  = errors.New("invalid number of partitions")
	ErrInvalidReplication = errors.New("invalid replication factor")
	ErrInvalidSettings    = errors.New("invalid settings")
	// ErrUnavailable: the change is valid and could not be recorded now.
	ErrUnavailable = errors.New("metadata store is unavailable")
)

// ErrISRConflict is wrapped by ChangeISR if the partition is not in the state that the caller
// assumed.
var ErrISRConflict = errors.New("in-sync replicas have changed")

// Store holds the cluster's metadata: local (one process, one file) or kube (resources in the API
// server).
type Store interface {
	// Run registers self, keeps it registered, and calls apply with each new image, in order, from
	// one goroutine, first once an image is complete. It returns nil when ctx ends, or an error
	// when it cannot continue.
	Run(ctx context.Context, self Broker, apply func(*Image)) error
	// ReportServing reports all partitions that this broker leads and serves, each with its leader
	// epoch. After an error some may not be recorded; the caller reports all of them again later.
	ReportServing(ctx context.Context, broker int32, served []Served) error
	// ChangeISR proposes new ISRs of partitions that the caller leads; each change is a
	// compare-and-swap of its own. The failure of a broker changes the ISR of thousands of
	// partitions, which are proposed together, so that a store can make them in one write. settled
	// is called for each change, by its index, as soon as its outcome is known, perhaps
	// concurrently, and for all before ChangeISR returns:
	//
	// nil: the ISR is change.To; an image shows it later, or has already. ErrISRConflict is wrapped
	// if leader, epoch or ISR differ from the change, or if a member's broker epoch is fenced or
	// the member is in controlled shutdown: nothing has changed, and the caller waits for an image
	// and decides again. Any other error leaves the outcome unknown: the caller uses the maximal
	// ISR of both until an image of this leader epoch shows one. Changes that take longer than
	// ChangeISRTimeout, or than ctx, end in that way.
	ChangeISR(ctx context.Context, changes []ISRChange, settled func(change int, err error))
}

// InSync is a replica in one broker epoch: a later incarnation of the broker is not in sync because
// of it.
type InSync struct {
	Broker int32
	Epoch  int64
	// ReplicaIncarnation is the id by which the leader knows the replica
	// (Partition.ReplicaIncarnations); the entry holds for that id only.
	ReplicaIncarnation string `json:",omitempty"`
}

// ISRChange is an ISR that a leader proposes.
type ISRChange struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32    // of the caller
	From        []int32  // the recorded ISR, as far as the caller knows, in any order
	To          []InSync // the proposed ISR, which contains the leader
}

// ShutdownAnnouncer is a Store that can announce the controlled shutdown of this broker.
type ShutdownAnnouncer interface {
	// AnnounceShutdown records that the broker that Run registered must not be elected. Images then
	// show it as Leaving, its partitions led by others where possible, and it removed from their
	// ISRs. After an error it may not be recorded. A new Run clears it.
	AnnounceShutdown(ctx context.Context) error
}

// Served is a partition that its leader serves, or would serve in a higher leader epoch.
type Served struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32
	// Ahead: the partition is not served, because its log contains LeaderEpoch, which is above the
	// epoch of the election. The metadata store has lost its state (a Partition was deleted and
	// created again, or a metadata file was lost). The leader must be elected above LeaderEpoch, or
	// two histories would have the same epochs.
	Ahead bool
}

// NewTopic is a request to create a topic, as Kafka's CreateTopics. Its reclaim policy is Delete.
type NewTopic struct {
	Name       string
	Partitions int32             // -1: the cluster's default
	Replicas   int32             // -1: the cluster's default
	Properties map[string]string // under their Kafka names
	Validate   bool              // only check
}

// Admin creates and deletes topics for Kafka admin clients, as Topic resources.
type Admin interface {
	// CreateTopic returns the new topic once its resource exists. Its id is zero if it was only
	// checked.
	CreateTopic(ctx context.Context, t NewTopic) (*Topic, error)
	// DeleteTopic returns once the deletion is recorded; brokers follow with a later image.
	// ErrTopicNotFound is wrapped if the topic does not exist.
	DeleteTopic(ctx context.Context, name string) error
}
