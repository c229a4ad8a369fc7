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
	// epoch. After an error some partitions may not be recorded; the caller reports all partitions
	// again later.
	ReportServing(ctx context.Context, broker int32, served []Served) error
	// ChangeISR proposes new ISRs of partitions that the caller leads; each change is a
	// compare-and-swap of its own. The failure of a broker changes the ISR of thousands of
	// partitions, which are proposed together, so that a store can make them in one write.
	// ChangeISR calls settled once for each change, with the index of the change, as soon as the
	// outcome of the change is known. The calls may be concurrent, and all have returned before
	// ChangeISR returns. The error is one of these:
	//
	// nil: the ISR is change.To; an image shows it later, or has already. ErrISRConflict is wrapped
	// if leader, epoch or ISR differ from the change, or if a member's broker epoch is fenced or
	// the member is in controlled shutdown: nothing has changed, and the caller waits for an image
	// and decides again. Any other error leaves the outcome unknown: the caller uses the maximal
	// ISR of change.From and change.To until an image of this leader epoch shows the recorded ISR.
	// Changes that take longer than ChangeISRTimeout, or than ctx, have an unknown outcome.
	ChangeISR(ctx context.Context, changes []ISRChange, settled func(change int, err error))
}

// InSync is a replica that is in sync in one broker epoch. It does not make a later incarnation of
// the broker in sync.
type InSync struct {
	Broker int32
	Epoch  int64
	// ReplicaIncarnation is the id by which the leader knows the replica
	// (Partition.ReplicaIncarnations). The InSync is valid for that id only.
	ReplicaIncarnation string `json:",omitempty"`
}

// ISRChange is an ISR that a leader proposes.
type ISRChange struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32    // leader epoch of the caller
	From        []int32  // the recorded ISR, as far as the caller knows, in any order
	To          []InSync // the proposed ISR, which contains the leader
}

// ShutdownAnnouncer is a Store that can announce the controlled shutdown of this broker.
type ShutdownAnnouncer interface {
	// AnnounceShutdown records that the broker that Run registered must not be elected. Later
	// images show the broker as Leaving; other brokers lead its partitions where possible and
	// remove it from the ISRs. After an error the announcement may or may not be recorded. A new
	// Run clears the announcement.
	AnnounceShutdown(ctx context.Context) error
}

// Served is a partition that its leader serves, or would serve in a higher leader epoch.
type Served struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32
	// Ahead reports that the partition is not served, because its log contains LeaderEpoch, which
	// is above the epoch of the election. The metadata store has lost its state (a Partition was
	// deleted and created again, or a metadata file was lost). The leader must be elected above
	// LeaderEpoch, or two histories would have the same epochs.
	Ahead bool
}

// NewTopic is a request to create a topic, as Kafka's CreateTopics. Its reclaim policy is Delete.
type NewTopic struct {
	Name       string
	Partitions int32             // -1: the cluster's default
	Replicas   int32             // -1: the cluster's default
	Properties map[string]string // topic settings, by Kafka name
	Validate   bool              // only check
}

// Admin creates and deletes topics for Kafka admin clients, as Topic resources.
type Admin interface {
	// CreateTopic returns the new topic once its resource exists. The id of the topic is zero if
	// the request was only validated.
	CreateTopic(ctx context.Context, t NewTopic) (*Topic, error)
	// DeleteTopic returns once the deletion is recorded; brokers follow with a later image.
	// ErrTopicNotFound is wrapped if the topic does not exist.
	DeleteTopic(ctx context.Context, name string) error
}
