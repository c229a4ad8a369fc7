package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// Peer is a connection to another broker. Only one fetcher uses it, with one request at a time.
type Peer interface {
	// Fetch requests records, starting at the request's offsets. The leader waits for records for at
	// most req.Wait. The results are in any order, and omit partitions that have nothing to report.
	// Their records are valid until the next call. Fetch returns early if ctx ends. After an error,
	// the connection is unusable.
	//
	// The errors session.ErrNotFound and session.ErrEpoch are exceptions: they are responses of the
	// leader, so the connection remains usable.
	Fetch(ctx context.Context, req *FollowerFetch) (FollowerResponse, error)
	// Interrupt makes the leader answer a waiting Fetch at once. It may be called from another
	// goroutine.
	Interrupt()
	Close() error
}

// FollowerFetch is a follower's fetch request.
type FollowerFetch struct {
	Replica    metadata.InSync // broker id and broker epoch of the follower
	Wait       time.Duration
	BytesMax   int // maximum number of bytes of the response; the first batch may exceed it
	Session    session.ID
	Partitions []FollowerPartition // requests; within a session, only those that have changed
	Forgotten  []session.Key       // partitions that the fetch removes from the session
}

// FollowerResponse is the response to a follower's fetch.
type FollowerResponse struct {
	Session    int32 // session id; 0 if there is no session
	Partitions []FollowerResult
}

// FollowerPartition is the fetch request for one partition. It also reports the state of the
// follower's replica.
type FollowerPartition struct {
	ID          PartitionID
	Topic       metadata.ID
	LeaderEpoch int32
	Offset      int64 // log end offset of the follower
	LastEpoch   int32 // latest leader epoch in the follower's log; -1 if there is none
	HighWater   int64
	DurableEnd  int64 // at most Offset
	LogStart    int64
	// TombstoneClean is the follower's tombstone-clean offset (logstore.Compaction).
	TombstoneClean int64
	// ReplicasTombstoneClean is the replicated cleaning progress that the follower last received.
	ReplicasTombstoneClean int64
	// ReplicaIncarnation is the replica incarnation id for which the log was created. It is "" if the
	// log is new and has no incarnation yet.
	ReplicaIncarnation string
	BytesMax           int
}

// FollowerResult is the response for one partition.
type FollowerResult struct {
	ID        PartitionID
	Err       error // error of this package or of logstore
	HighWater int64 // high watermark of the leader; -1: unknown
	LogStart  int64 // log start offset of the leader; -1: unknown
	LogEnd    int64 // log end offset of the leader, with ErrOffsetOutOfRange; -1: unknown
	// ReplicasTombstoneClean is the replicated cleaning progress: the smallest tombstone-clean
	// offset over all replicas.
	ReplicasTombstoneClean int64
	// If the logs diverge, DivergingEpoch is the largest epoch in the leader's log that does not
	// exceed LastEpoch, and DivergingEnd is that epoch's end offset. The logs diverge at or below
	// DivergingEnd. If they do not diverge, DivergingEpoch is negative.
	DivergingEpoch int32
	DivergingEnd   int64
	Records        []byte
}

// Dial connects to the given broker.
type Dial func(ctx context.Context, to metadata.Broker) (Peer, error)
