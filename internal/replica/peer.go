package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// Peer is a connection to another broker, used by one fetcher: one request at a time.
type Peer interface {
	// Pull asks for what comes behind the offsets of the request, and waits for it at the other
	// side, at most Wait. Results come in any order; a partition may be left out if there is
	// nothing new of it. Records are valid until the next call. The end of ctx ends the call early.
	// After an error the connection is of no use any more.
	//
	// ErrSessionNotFound and ErrSessionEpoch are answers: the connection is as good as before.
	Pull(ctx context.Context, req *Pull) (PullAnswer, error)
	// Hurry has the other side answer the call under way now, if it waits. It may be called by
	// another goroutine.
	Hurry()
	Close() error
}

// Pull is a follower's fetch.
type Pull struct {
	Replica    metadata.InSync // who asks, in which incarnation
	Wait       time.Duration
	BytesMax   int // of the answer; a first batch may exceed it
	Session    SessionID
	Partitions []PullPartition // within a session: those of which there is something new to say
	Forgotten  []PartitionKey  // of the session, which are not asked for any more
}

// PullAnswer is the answer to a follower's fetch.
type PullAnswer struct {
	Session    int32 // of which it is; 0: of none
	Partitions []Pulled
}

// PullPartition is where a follower stands in one partition.
type PullPartition struct {
	ID          PartitionID
	Topic       metadata.ID
	LeaderEpoch int32
	Offset      int64 // its log end
	LastEpoch   int32 // the latest leader epoch of its log; -1: it knows none
	HighWater   int64
	Safe        int64 // <= Offset: what it vouches for
	LogStart    int64
	Lonely      int64 // its tombstones below are lonely: logstore.Log.LonelyTo
	Told        int64 // as far as it was told, those of all replicas are lonely below
	// Assignment is the time as a replica for which its log was made; "": from before there were
	// names.
	Assignment string
	BytesMax   int
}

// Pulled is the answer for one partition.
type Pulled struct {
	ID        PartitionID
	Err       error // of this package or logstore
	HighWater int64 // the leader's; -1: unknown
	LogStart  int64 // the leader's; -1: unknown
	LogEnd    int64 // the leader's, with ErrOffsetOutOfRange; -1: unknown
	Lonely    int64 // the tombstones of all replicas are lonely below
	// DivergingEpoch, when >= 0, is the largest epoch of the leader's log that is at most
	// LastEpoch, and ends at DivergingEnd: there the logs part at the latest.
	DivergingEpoch int32
	DivergingEnd   int64
	Records        []byte
}

// Dial connects to a broker.
type Dial func(ctx context.Context, to metadata.Broker) (Peer, error)
