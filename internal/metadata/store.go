package metadata

import (
	"context"
	"errors"
)

// What a Store's changes fail with; handler maps each to a Kafka error code.
var (
	ErrTopicExists        = errors.New("topic exists")
	ErrTopicNotFound      = errors.New("topic not found")
	ErrInvalidTopicName   = errors.New("invalid topic name")
	ErrInvalidPartitions  = errors.New("invalid number of partitions")
	ErrInvalidReplication = errors.New("invalid replication factor")
	ErrInvalidSettings    = errors.New("invalid settings")
	// ErrUnavailable: nothing is wrong with the change, and it could not be recorded now.
	ErrUnavailable = errors.New("the cluster's metadata cannot be changed now")
)

// ErrISRConflict is what ChangeISR wraps when the partition is not as the caller took it to be.
var ErrISRConflict = errors.New("in-sync replicas have changed meanwhile")

// Store is where the cluster's metadata lives: local (one process, one file) or kube (resources in
// the API server).
type Store interface {
	// Run registers self, keeps it registered, and calls apply with each new image, in order, from
	// one goroutine, the first time once the image is complete. It returns when ctx ends (nil), or
	// when it can go on no longer.
	Run(ctx context.Context, self Broker, apply func(*Image)) error
	// ReportServing tells the store which partitions this broker leads and serves now, all of them, each
	// with its leader epoch. An error means that some of it was not recorded; the caller tells all
	// of it again later.
	ReportServing(ctx context.Context, broker int32, served []Served) error
	// ChangeISR proposes other in-sync replicas of partitions that the caller leads; each change is
	// a compare-and-swap for itself. The death of a broker changes those of thousands of
	// partitions, and they come together, so that a store can make them in one write. settled is
	// called for each change, by its index, as soon as its outcome is known, perhaps for several at
	// once, and for all before ChangeISR returns:
	//
	// nil: they are change.To from now on; an image will say so, too, and may have said so before.
	// ErrISRConflict is wrapped when leader, epoch or ISR are not as named, or a member's
	// incarnation is not the one that lives, or a member leaves: nothing has changed, and the
	// caller waits for an image and thinks again. Any other error leaves the outcome unknown: the
	// caller counts with both sets until an image of this leader epoch tells. That is also how it
	// ends for those that took longer than ChangeISRTimeout, or than ctx.
	ChangeISR(ctx context.Context, changes []ISRChange, settled func(change int, err error))
}

// InSync is a replica of a broker in one incarnation: a later one is not in sync because an earlier
// one was.
type InSync struct {
	Broker int32
	Epoch  int64
	// ReplicaIncarnation is what the leader knows the replica by (Partition.Assignments): it counts for no
	// other.
	ReplicaIncarnation string `json:",omitempty"`
}

// ISRChange is what a leader proposes.
type ISRChange struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32    // in which the caller leads
	From        []int32  // what it holds for committed, in any order
	To          []InSync // what it proposes; the leader is always in it
}

// ShutdownAnnouncer is a Store that can say beforehand that this broker goes.
type ShutdownAnnouncer interface {
	// AnnounceShutdown records that the broker that Run registered must lead nothing any more; images will
	// show it Leaving, its partitions led by others where there are others, and it in sync no more
	// with these. An error means that it may not have been recorded. A new Run begins anew.
	AnnounceShutdown(ctx context.Context) error
}

// Served is a partition that its leader serves, or would if its leader epoch were higher.
type Served struct {
	Topic       ID
	Partition   int32
	LeaderEpoch int32
	// Ahead: the partition is not served, as the log knows LeaderEpoch, which is above the one it
	// is to be led in. The metadata have forgotten it (a Partition was deleted and made anew, a
	// metadata file was lost); the leader must be elected above it, or two histories would carry
	// the same epochs.
	Ahead bool
}

// NewTopic asks for a topic, as Kafka's CreateTopics does. Made this way, its reclaim policy is
// Delete.
type NewTopic struct {
	Name       string
	Partitions int32             // -1: the cluster's default
	Replicas   int32             // -1: the cluster's default
	Properties map[string]string // under their Kafka names
	Validate   bool              // only check
}

// Admin changes topics on behalf of Kafka admin clients; the Topic resource is made or deleted,
// nothing else.
type Admin interface {
	// CreateTopic returns the topic as it will be (its id is zero when only checked). It returns
	// once the topic's resource exists.
	CreateTopic(ctx context.Context, t NewTopic) (*Topic, error)
	// DeleteTopic returns once the deletion is recorded; brokers follow with a later image.
	// ErrTopicNotFound is wrapped when there is no topic of the name.
	DeleteTopic(ctx context.Context, name string) error
}
