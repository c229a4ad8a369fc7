package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// Peer is a connection to another broker, used by one fetcher: one request at a time.
type Peer interface {
	// Fetch asks for what comes behind the offsets of the request, and waits for it at the other
	// side, at most Wait. Results come in any order; a partition may be left out if there is
	// nothing new of it. Records are valid until the next call. The end of ctx ends the call early.
	// After an error the connection is of no use any more.
	//
	// ErrSessionNotFound and ErrSessionEpoch are answers: the connection is as good as before.
	Fetch(ctx context.Context, req *FollowerFetch) (FollowerResponse, error)
	// Interrupt has the other side answer the call under way now, if it waits. It may be called by
	// another goroutine.
	Interrupt()
	Close() error
}

// Pull is a follower's fetch.
type FollowerFetch struct {
	Replica    metadata.InSync // who asks, in which incarnation
	Wait       time.Duration
	BytesMax   int // of the answer; a first batch may exceed it
	Session    SessionID
	Partitions []FollowerPartition // within a session: those of which there is something new to say
	Forgotten  []PartitionKey      // of the session, which are not asked for any more
}

// PullAnswer is the answer to a follower's fetch.
type FollowerResponse struct {
	Session    int32 // of which it is; 0: of none
	Partitions []FollowerResult
}

// PullPartition is where a follower stands in one partition.
type FollowerPartition struct {
	ID                     PartitionID
	Topic                  metadata.ID
	LeaderEpoch            int32
	Offset                 int64 // its log end
	LastEpoch              int32 // the latest leader epoch of its log; -1: it knows none
	HighWater              int64
	DurableEnd             int64 // <= Offset: what it vouches for
	LogStart               int64
	TombstoneClean         int64 // its tombstones below are lonely: logstore.Log.LonelyTo
	ReplicasTombstoneClean int64 // as far as it was told, those of all replicas are lonely below
	// Assignment is the time as a replica for which its log was made; "": from before there were
	// names.
	ReplicaIncarnation string
	BytesMax           int
}

// Pulled is the answer for one partition.
type FollowerResult struct {
	ID                     PartitionID
	Err                    error // of this package or logstore
	HighWater              int64 // the leader's; -1: unknown
	LogStart               int64 // the leader's; -1: unknown
	LogEnd                 int64 // the leader's, with ErrOffsetOutOfRange; -1: unknown
	ReplicasTombstoneClean int64 // the tombstones of all replicas are lonely below
	// DivergingEpoch, when >= 0, is the largest epoch of the leader's log that is at most
	// LastEpoch, and ends at DivergingEnd: there the logs part at the latest.
	DivergingEpoch int32
	DivergingEnd   int64
	Records        []byte
}

// Dial connects to a broker.
type Dial func(ctx context.Context, to metadata.Broker) (Peer, error)
