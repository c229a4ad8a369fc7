package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// Peer is a connection to another broker. One fetcher uses it, with one request at a time.
type Peer interface {
	// Fetch requests records from the offsets of the request on. The leader may wait for records
	// for at most req.Wait. The results are in any order, and omit the partitions that have nothing
	// to report. Their records are valid until the next call. The call returns early if ctx ends.
	// After an error the connection is unusable.
	//
	// session.ErrNotFound and session.ErrEpoch are exceptions: they are responses of the leader, so
	// the connection remains usable.
	Fetch(ctx context.Context, req *FollowerFetch) (FollowerResponse, error)
	// Interrupt makes the leader answer a waiting Fetch at once. It may be called from another
	// goroutine.
	Interrupt()
	Close() error
}

// FollowerFetch is a follower's fetch request.
type FollowerFetch struct {
	Replica    metadata.InSync // the follower: its broker id and broker epoch
	Wait       time.Duration
	BytesMax   int // limit for the response; the first batch may exceed it
	Session    session.ID
	Partitions []FollowerPartition // within a session only partitions whose request has changed
	Forgotten  []session.Key       // the partitions that the fetch removes from the session
}

// FollowerResponse is the response to a follower's fetch.
type FollowerResponse struct {
	Session    int32 // the session id; 0: no session
	Partitions []FollowerResult
}

// FollowerPartition is the fetch request for one partition, and reports the state of the follower's
// replica.
type FollowerPartition struct {
	ID          PartitionID
	Topic       metadata.ID
	LeaderEpoch int32
	Offset      int64 // the follower's log end
	LastEpoch   int32 // the latest leader epoch in the follower's log; -1: none
	HighWater   int64
	DurableEnd  int64 // <= Offset
	LogStart    int64
	// TombstoneClean is the follower's tombstone-clean offset (logstore.Compaction).
	TombstoneClean int64
	// ReplicasTombstoneClean is the replicated cleaning progress that the follower last received.
	ReplicasTombstoneClean int64
	// ReplicaIncarnation is the replica incarnation id for which the log was created; "": the log
	// is new, and no incarnation has been decided for it.
	ReplicaIncarnation string
	BytesMax           int
}

// FollowerResult is the response for one partition.
type FollowerResult struct {
	ID        PartitionID
	Err       error // an error of this package or of logstore
	HighWater int64 // the leader's high watermark; -1: unknown
	LogStart  int64 // the leader's log start offset; -1: unknown
	LogEnd    int64 // the leader's log end offset, with ErrOffsetOutOfRange; -1: unknown
	// ReplicasTombstoneClean is the replicated cleaning progress: the smallest tombstone-clean
	// offset over all replicas.
	ReplicasTombstoneClean int64
	// If the logs diverge, DivergingEpoch is the largest epoch in the leader's log that does not
	// exceed LastEpoch, and DivergingEnd is the end offset of that epoch. The logs diverge at
	// DivergingEnd or below it. If they do not diverge, DivergingEpoch is negative.
	DivergingEpoch int32
	DivergingEnd   int64
	Records        []byte
}

// Dial connects to a broker.
type Dial func(ctx context.Context, to metadata.Broker) (Peer, error)
