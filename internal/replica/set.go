package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

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
	// ErrNotEnoughReplicasAfterAppend: the batch is in the leader's log, and while it waited for
	// the others fewer than the topic asks for were left in sync.
	ErrNotEnoughReplicasAfterAppend = errors.New("not enough in-sync replicas after the append")
	// ErrOffsetNotAvailable: there will be records at the offset, or are elsewhere; this broker
	// cannot tell yet (KIP-207, KIP-392).
	ErrOffsetNotAvailable = errors.New("offset not available yet")
	// ErrOtherTopic: the topic of the name is another one than the client means.
	ErrInconsistentTopicID = errors.New("the topic has another id")
	// ErrStaleReplica refuses a fetch of a follower in an incarnation that is over, or that the
	// partition's replicas do not have.
	ErrStaleReplica = errors.New("not a replica of the partition, or one of the past")
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
	fetches  *timer.Purgatory[PartitionID] // of consumers
	pulls    *timer.Purgatory[PartitionID] // of followers

	dial      Dial
	changeISR ChangeISR
	defaults  metadata.Replication // where an image says nothing
	copying   metadata.Replication // as the last image has it; Apply's
	lagMax    atomic.Int64         // a time.Duration
	catchUp   *rate.Limiter        // bytes for replicas that are not in sync
	fetchers  fetchers
	reviews   reviews
	sessions  sessions // of consumers and followers that fetch here
}

// view is what Apply made of an image. It is immutable; the partitions in it are not, they change
// their roles.
type view struct {
	image      *metadata.Image
	partitions map[PartitionID]*partition // those with a replica here
}

// ChangeISR is metadata.Store's method of the name.
type ChangeISR = func(ctx context.Context, changes []metadata.ISRChange,
	settled func(change int, err error))

// Options of a Set.
type Options struct {
	NodeID   int32
	Cluster  string // id of the cluster whose logs the store holds; "": nobody's yet
	Store    *logstore.Store
	Registry prometheus.Registerer // of its and the purgatories' metrics; may be nil
	Logger   *slog.Logger          // default: none

	// Dial connects to another broker, to follow the partitions that it leads. Without it none is
	// followed.
	Dial Dial
	// ChangeISR is metadata.Store's. Without it the in-sync replicas change by images only.
	ChangeISR ChangeISR
	// LagMax is how long a follower may be behind before it is out of sync, unless the image says
	// it; default 10 s (replica.lag.time.max.ms is 30 s in Kafka).
	LagMax time.Duration
}

const lagMaxDefault = 10 * time.Second

// NewSet returns a set without partitions; Apply gives it some.
func NewSet(opts Options) *Set {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	purgatory := func(operation string) *timer.Purgatory[PartitionID] {
		return timer.NewPurgatory[PartitionID](timer.Options{Operation: operation,
			Registry: opts.Registry, Logger: opts.Logger})
	}
	s := &Set{
		node:     opts.NodeID,
		cluster:  opts.Cluster,
		store:    opts.Store,
		logger:   opts.Logger,
		metrics:  newMetrics(opts.Registry),
		produces: purgatory("produce"),
		fetches:  purgatory("fetch"),
		pulls:    purgatory("replica_fetch"),

		dial: opts.Dial, changeISR: opts.ChangeISR,
		defaults: metadata.Replication{LagMax: opts.LagMax}, catchUp: newCatchUp(0),
	}
	if s.defaults.LagMax <= 0 {
		s.defaults.LagMax = lagMaxDefault
	}
	s.lagMax.Store(int64(s.defaults.LagMax))
	s.fetchers.running = map[fetcherKey]*fetcher{}
	s.startReviews()
	s.view.Store(&view{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil)})
	s.store.OnSettled(s.settled)
	return s
}

// settled is told by the store that a log was synced, or has stopped: what is safe now moves the
// high watermark, and producers that wait for either look again. On a follower there is nothing to
// move, but its leader waits to be told.
func (s *Set) settled(id PartitionID) {
	p := s.view.Load().partitions[id]
	if p == nil || p.log == nil {
		return
	}
	if r := p.role.Load(); r.reign == nil {
		s.fetchers.synced(r.leader)
	}
	if r := p.role.Load(); r.reign != nil && r.reign.advance(time.Now()) {
		s.advanced(p, r)
		return
	}
	s.notify(id)
}

// Leader returns the log of a partition that this broker leads, checked against the leader epoch
// the client knows (-1: any).
func (s *Set) Leader(id PartitionID, epoch int32) (*logstore.Log, error) {
	p, _, err := s.leader(id, epoch)
	if err != nil {
		return nil, err
	}
	return p.log, nil
}

// CheckEndOffset fails with ErrOffsetNotAvailable while this broker, new as the leader, does not
// know yet how far the leader before it came: what it would tell of the log's end could lie below
// what consumers have seen (KIP-207).
func (s *Set) CheckEndOffset(id PartitionID) error {
	p, r, err := s.leader(id, -1)
	if err != nil {
		return err
	}
	if hw := p.log.HighWatermark(); hw < r.reign.start {
		return fmt.Errorf("%w: the high watermark is %d, the leader epoch begins at %d",
			ErrOffsetNotAvailable, hw, r.reign.start)
	}
	return nil
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
	if topic := v.image.Topic(id.Topic); topic != nil && id.Index >= 0 &&
		int(id.Index) < len(topic.Partitions) {
		return ErrNotLeader
	}
	return ErrUnknownPartition
}

// notify lets the requests that wait for a partition look again.
func (s *Set) notify(id PartitionID) {
	s.produces.Notify(id)
	s.notifyConsumers(id)
}

// notifyConsumers lets the consumers of a partition look again.
func (s *Set) notifyConsumers(id PartitionID) {
	s.fetches.Notify(id)
	s.markConsumers(id)
}

// advanced is called after the high watermark of a partition moved that this broker leads.
func (s *Set) advanced(p *partition, r *role) {
	s.notify(p.id)
	switch {
	case len(r.replicas) < 2:
	case r.brisk:
		s.notifyFollowers(p.id)
	default:
		s.markFollowers(p.id, false)
	}
}

// notifyFollowers lets the followers of a partition look again: there is more to copy, or its
// leader has changed.
func (s *Set) notifyFollowers(id PartitionID) {
	s.pulls.Notify(id)
	s.markFollowers(id, true)
}

// wait returns once an operation has ended; the end of ctx ends it early, and so does hurry, which
// may be nil. It waits for done also then: the operation may be completing at this moment, and
// writes results the caller is about to read.
func wait(ctx context.Context, waiting timer.Waiting[PartitionID], hurry, done <-chan struct{}) {
	select {
	case <-done:
		return
	// only who waits asks for ctx.Done: it makes the listener look after the connection meanwhile
	default:
	}
	select {
	case <-done:
	case <-hurry:
		waiting.Cancel()
		<-done
	case <-ctx.Done():
		waiting.Cancel()
		<-done
	}
}

// Close ends all waiting requests, and copies and proposes nothing any more; the store stays open.
func (s *Set) Close() {
	s.fetchers.close()
	s.reviews.close()
	s.produces.Close()
	s.fetches.Close()
	s.pulls.Close()
}
