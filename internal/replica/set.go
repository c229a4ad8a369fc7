package replica

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/timer"
)

// Errors of a Set's methods, besides those of logstore and record.
var (
	ErrUnknownPartition   = errors.New("unknown topic or partition")
	ErrNotLeader          = errors.New("not leader for partition")
	ErrNotEnoughReplicas  = errors.New("not enough in-sync replicas")
	ErrTimeout            = errors.New("request timed out")
	ErrUnknownLeaderEpoch = errors.New("unknown leader epoch")
	ErrFencedLeaderEpoch  = logstore.ErrFencedLeaderEpoch
	// ErrReplicated refuses partitions with several replicas: without replication their followers would hold nothing.
	ErrReplicated = errors.New("partitions with more than one replica are not served yet")
)

// PartitionID names a partition.
type PartitionID = logstore.PartitionID

// Set holds the partitions that live on this broker.
type Set struct {
	node     int32
	cluster  string // whose logs the store holds; "": nobody's yet. Apply's.
	store    *logstore.Store
	logger   *slog.Logger
	metrics  *metrics
	view     atomic.Pointer[view]
	produces *timer.Purgatory[PartitionID]
	fetches  *timer.Purgatory[PartitionID]
}

// view is what Apply made of an image. It is immutable; the partitions in it are not, they change their roles.
type view struct {
	image      *metadata.Image
	partitions map[PartitionID]*partition // those with a replica here
}

// Options of a Set.
type Options struct {
	NodeID   int32
	Cluster  string // id of the cluster whose logs the store holds; "": nobody's yet
	Store    *logstore.Store
	Registry prometheus.Registerer // of its and the purgatories' metrics; may be nil
	Logger   *slog.Logger          // default: none
}

// NewSet returns a set without partitions; Apply gives it some.
func NewSet(opts Options) *Set {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	purgatory := func(operation string) *timer.Purgatory[PartitionID] {
		return timer.NewPurgatory[PartitionID](timer.Options{Operation: operation, Registry: opts.Registry, Logger: opts.Logger})
	}
	s := &Set{
		node:     opts.NodeID,
		cluster:  opts.Cluster,
		store:    opts.Store,
		logger:   opts.Logger,
		metrics:  newMetrics(opts.Registry),
		produces: purgatory("produce"),
		fetches:  purgatory("fetch"),
	}
	s.view.Store(&view{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil)})
	s.store.OnSettled(s.settled)
	return s
}

// settled is told by the store that a log was synced, or has stopped: what is safe now moves the high watermark, and producers that
// wait for either look again. On a follower there is nothing to move.
func (s *Set) settled(id PartitionID) {
	p := s.view.Load().partitions[id]
	if p == nil || p.log == nil {
		return
	}
	if p.role.Load().refusal == nil {
		p.advance()
	}
	s.notify(id)
}

// Leader returns the log of a partition that this broker leads, checked against the leader epoch the client knows (-1: any).
func (s *Set) Leader(id PartitionID, epoch int32) (*logstore.Log, error) {
	p, _, err := s.leader(id, epoch)
	if err != nil {
		return nil, err
	}
	return p.log, nil
}

// leader finds a partition that this broker leads, and its role at this moment.
func (s *Set) leader(id PartitionID, epoch int32) (*partition, *role, error) {
	view := s.view.Load()
	p := view.partitions[id]
	if p == nil {
		return nil, nil, view.missing(id)
	}
	r := p.role.Load()
	err := r.check(epoch)
	return p, r, err
}

// missing says why a partition is not here: there is none, or others have it.
func (v *view) missing(id PartitionID) error {
	if topic := v.image.Topic(id.Topic); topic != nil && id.Index >= 0 && int(id.Index) < len(topic.Partitions) {
		return ErrNotLeader
	}
	return ErrUnknownPartition
}

// notify lets the requests that wait for a partition look again.
func (s *Set) notify(id PartitionID) {
	s.produces.Notify(id)
	s.fetches.Notify(id)
}

// wait returns once an operation has ended; the end of ctx ends it early. It waits for done also then: the operation may be
// completing at this moment, and writes results the caller is about to read.
func wait(ctx context.Context, waiting timer.Waiting[PartitionID], done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
		waiting.Cancel()
		<-done
	}
}

// Close ends all waiting requests; the store stays open.
func (s *Set) Close() {
	s.produces.Close()
	s.fetches.Close()
}
