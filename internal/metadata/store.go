package metadata

import (
	"context"
	"errors"
	"slices"
)

// These are errors of changes to a Store. Package handler converts each of them to a Kafka error
// code.
var (
	ErrTopicExists        = errors.New("topic exists")
	ErrTopicNotFound      = errors.New("topic not found")
	ErrInvalidTopicName   = errors.New("invalid topic name")
	ErrInvalidPartitions  = errors.New("invalid number of partitions")
	ErrInvalidReplication = errors.New("invalid replication factor")
	ErrInvalidSettings    = errors.New("invalid settings")
	// ErrUnavailable means that the change is valid but could not be stored now.
	ErrUnavailable = errors.New("metadata store is unavailable")
)

// ErrISRConflict means that the store has rejected an ISR change, because the partition or a
// proposed member is not in the state that the caller assumed (Store.ChangeISR).
var ErrISRConflict = errors.New("in-sync replicas have changed")

// Store contains the cluster's metadata. Package local implements it with one file in one process,
// and package kube with resources in the API server. Package test/kit/metadatatest tests the
// contract.
type Store interface {
	// Run registers the broker self and keeps it registered. It calls apply with each new image, in
	// order and from one goroutine. The first call follows once an image is complete. Run returns nil
	// when ctx ends, or an error when it cannot continue.
	//
	// Run first records the losses in self.Losses (placement.LoseLog), and registers the broker only
	// afterwards. Otherwise an election could choose the broker before the broker reports a loss, and
	// could remove other replicas from the ISR, which have the records (ADR 0358).
	//
	// Each image contains self in the broker epoch of this registration. An image names a broker as a
	// partition's leader only in the broker epoch in which the broker was elected. So an image never
	// names self as the leader in a leader epoch that began before Run. The broker relies on this,
	// because its log may have lost the records of such an epoch, and the epoch itself (ADR 0252).
	Run(ctx context.Context, self Broker, apply func(*Image)) error
	// ReportServing stores which partitions this broker leads and serves, and in which leader epochs,
	// and which logs are lost or have stopped. Every call must contain all of these partitions in
	// served. After an error, only some of the partitions may be stored; the caller later reports all
	// partitions again.
	ReportServing(ctx context.Context, broker int32, served []Served) error
	// ChangeISR proposes new ISRs of partitions that the caller leads. Each change is a separate
	// compare-and-swap. A broker failure changes the ISR of thousands of partitions. The caller
	// proposes all of these changes together, so that a store can make them in one write.
	//
	// ChangeISR calls settled once for each change, with the index of the change, as soon as the
	// outcome of the change is known. The calls may be concurrent, and all of them have returned
	// before ChangeISR returns. The error that settled receives means:
	//
	//   - nil: the ISR is now change.To, as of the partition epoch in the call
	//     (Partition.PartitionEpoch). An image shows this ISR later, or has already shown it.
	//   - ErrISRConflict (wrapped): the ISR has not changed, because the leader, the leader epoch or
	//     the ISR differs from the change, or because a proposed member is fenced or in controlled
	//     shutdown. The caller waits for an image and decides again.
	//   - any other error: the outcome is unknown. The caller uses the maximal ISR of change.From and
	//     change.To until an image of this leader epoch shows the recorded ISR. A change that takes
	//     longer than ChangeISRTimeout, or than ctx, also has an unknown outcome.
	ChangeISR(ctx context.Context, changes []ISRChange, settled SettledISR)
}

// InSync identifies a replica that is in sync in one broker epoch. It does not identify the replica
// in a later broker epoch.
type InSync struct {
	Broker int32
	Epoch  int64
	// ReplicaIncarnation is the replica incarnation id in the leader's metadata image
	// (Partition.ReplicaIncarnations). The InSync does not identify a replica with another id.
	ReplicaIncarnation string `json:",omitempty"`
}

// ISRChange is an ISR change that a leader proposes.
type ISRChange struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32    // leader epoch in which the caller leads
	From        []int32  // recorded ISR, as far as the caller knows, in any order
	To          []InSync // proposed ISR, which contains the leader
}

// SettledISR receives the outcome of an ISR change. change is the index of the change, and
// partitionEpoch is the partition epoch after the change, or 0 after an error.
type SettledISR func(change int, partitionEpoch int64, err error)

// Adds reports whether the change adds a broker to the ISR.
func (c ISRChange) Adds() bool {
	return slices.ContainsFunc(c.To, func(m InSync) bool { return !slices.Contains(c.From, m.Broker) })
}

// ShutdownAnnouncer is a Store that can announce the controlled shutdown of this broker.
type ShutdownAnnouncer interface {
	// AnnounceShutdown announces the controlled shutdown of the broker that Run has registered. Later
	// images show the broker as Leaving. The broker is no longer elected; where possible, other
	// brokers become the leaders of its partitions and remove it from the ISRs. After an error the
	// announcement may or may not be stored. The next call of Run clears it.
	AnnounceShutdown(ctx context.Context) error
}

// RegistrationWaiter is a Store in which a broker's registration may have to wait for an
// administrator's consent.
type RegistrationWaiter interface {
	// WaitsFor returns the reason why Run is waiting to register, or nil if it is not waiting.
	WaitsFor() error
}

// RemovalRecorder is a Store that records which brokers have deleted the records of partitions that
// are being removed (RetainedPartition.Removing).
type RemovalRecorder interface {
	// RecordRemoved records that a broker has no records of the given partitions. It ignores a
	// partition that is no longer being removed. After an error, only some of the partitions may be
	// recorded; the caller must repeat the call.
	RecordRemoved(ctx context.Context, broker int32, removed []RetainedPartition) error
}

// Served describes one partition in a broker's report. Either the broker leads and serves the
// partition, or it was elected to lead the partition and refuses to serve it (Ahead), or it has
// lost the partition's log (Lost), or it has a replica whose log has stopped (Stopped).
type Served struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32
	// Ahead means that the leader does not serve the partition, because its log contains the epoch
	// LeaderEpoch, which is higher than the epoch of its election. This happens if the metadata store
	// has lost its state: a PartitionSet was deleted and created again, or a metadata file was lost.
	// The leader must be elected again in an epoch above LeaderEpoch. Otherwise two different
	// histories would use the same leader epochs.
	Ahead bool
	// Lost means that this broker, which has a replica, has lost records that were in its log. The
	// loss concerns the replica incarnation with the id ReplicaIncarnation. The replica must get
	// another id, and must not be elected cleanly before it is in sync again (placement.LoseLog).
	Lost               bool   `json:",omitempty"`
	ReplicaIncarnation string `json:",omitempty"`
	// Damaged means that this broker, which has a replica with the id ReplicaIncarnation, has damaged
	// records that it cannot replace. The replica gets another id, so that it is copied again, and
	// leaves the ISR, if enough healthy replicas remain in sync (placement.DiscardLog). Otherwise
	// nothing changes. A report may contain another Served for the same partition, because the broker
	// continues to serve it. MinInSync is the minInSyncReplicas of the topic.
	Damaged   bool `json:",omitempty"`
	MinInSync int  `json:",omitempty"`
	// Stopped means that this broker has a replica whose log has stopped or cannot be opened, because
	// of its disk or because of damage. The replica neither serves nor follows. If another in-sync
	// replica can lead, this replica leaves the ISR and loses the leadership (ADR 0350).
	Stopped bool `json:",omitempty"`
}

// NewTopic is a request to create a topic, as in Kafka's CreateTopics. The topic's reclaim policy
// is Delete.
type NewTopic struct {
	Name       string
	Partitions int32 // number of partitions; -1 selects the cluster's default
	Replicas   int32 // number of replicas; -1 selects the cluster's default
	// Assignment contains the replicas of each partition, the preferred leader first; Partitions and
	// Replicas must agree with it. If it is nil, package placement chooses the replicas.
	Assignment [][]int32
	Properties map[string]string // topic settings by their Kafka names
	Validate   bool              // true if the request is only validated, and the topic is not created
}

// Admin creates and deletes topics for Kafka admin clients. Each topic is a Topic resource.
type Admin interface {
	// CreateTopic returns the new topic once its resource exists. If t.Validate is set, it creates
	// nothing, and the returned topic has no id.
	CreateTopic(ctx context.Context, t NewTopic) (*Topic, error)
	// DeleteTopic returns when the deletion is stored; brokers apply it with a later image. The error
	// wraps ErrTopicNotFound if the topic does not exist.
	DeleteTopic(ctx context.Context, name string) error
}
