package replica

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// Errors of a Set's methods, besides those of logstore and record.
var (
	ErrUnknownPartition   = errors.New("unknown topic or partition")
	ErrNotLeader          = errors.New("not leader for partition")
	ErrNotEnoughReplicas  = errors.New("not enough in-sync replicas")
	ErrTimeout            = errors.New("request timed out")
	ErrUnknownLeaderEpoch = errors.New("unknown leader epoch")
	ErrFencedLeaderEpoch  = logstore.ErrFencedLeaderEpoch
)

// Set holds the partitions that live on this broker.
type Set struct{}

// Options of a Set.
type Options struct {
	NodeID int32
	Store  *logstore.Store
	Logger *slog.Logger
}

// NewSet returns a set without partitions; Apply gives it some.
func NewSet(opts Options) *Set { panic("unwritten") }

// Apply makes the set what the image says: logs are made, taken up, configured and released, leader epochs begun. It returns
// what this broker leads and serves now. Errors concern single partitions; the others are served.
func (s *Set) Apply(img *metadata.Image) ([]metadata.Served, error) { panic("unwritten") }

// PartitionID names a partition.
type PartitionID = logstore.PartitionID

// ProducePartition is one partition's batch in a produce request.
type ProducePartition struct {
	ID    PartitionID
	Batch []byte // may be written into
}

// ProduceResult is the answer for one partition.
type ProduceResult struct {
	ID       PartitionID
	Appended logstore.Appended
	Err      error
}

// Produce appends each batch and, with acks -1, waits in the purgatory until every one is below its high watermark, or for
// timeout (ErrTimeout). The results are in the order of the batches.
func (s *Set) Produce(ctx context.Context, acks int16, timeout time.Duration, batches []ProducePartition) []ProduceResult {
	panic("unwritten")
}

// FetchPartition is what a consumer wants of one partition.
type FetchPartition struct {
	ID          PartitionID
	Offset      int64
	BytesMax    int
	LeaderEpoch int32 // what the client thinks it is; -1: unknown
}

// FetchRequest is a consumer's fetch.
type FetchRequest struct {
	Partitions []FetchPartition
	BytesMin   int
	BytesMax   int
	Wait       time.Duration
	Committed  bool // read_committed: up to the last stable offset
}

// FetchResult is the answer for one partition. Data is nil on an error; otherwise it must be released.
type FetchResult struct {
	ID        PartitionID
	Data      *logstore.Slice
	Err       error
	LogStart  int64
	HighWater int64
	Stable    int64
}

// Fetch reads; while less than BytesMin bytes are there and nothing failed, it waits in the purgatory, at most Wait. Results
// are in the order of the partitions; the first batch of the first partition that has data comes whole, whatever its size.
func (s *Set) Fetch(ctx context.Context, req FetchRequest) []FetchResult { panic("unwritten") }

// Leader returns the log of a partition that this broker leads, checked against the leader epoch the client knows (-1: any).
func (s *Set) Leader(id PartitionID, epoch int32) (*logstore.Log, error) { panic("unwritten") }

// Close ends all waiting requests; the store stays open.
func (s *Set) Close() { panic("unwritten") }
