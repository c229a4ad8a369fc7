package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/timer"
)

// These are the errors that methods of Set return, besides the errors of packages logstore, record
// and session.
var (
	ErrUnknownPartition   = errors.New("unknown topic or partition")
	ErrNotLeader          = errors.New("not leader for partition")
	ErrNotEnoughReplicas  = errors.New("not enough in-sync replicas")
	ErrTimeout            = errors.New("request timed out")
	ErrUnknownLeaderEpoch = errors.New("unknown leader epoch")
	ErrFencedLeaderEpoch  = logstore.ErrFencedLeaderEpoch
	// ErrNotEnoughReplicasAfterAppend means that the batch is in the leader's log, but the ISR has
	// become smaller than the topic requires while the request waited.
	ErrNotEnoughReplicasAfterAppend = errors.New("not enough in-sync replicas after the append")
	// ErrOffsetNotAvailable means that the offset exists on another broker, or will exist on this one,
	// but this broker cannot serve it yet (KIP-207, KIP-392).
	ErrOffsetNotAvailable = errors.New("offset not available yet")
	// ErrInconsistentTopicID means that the topic with the requested name has another id than the
	// requested one.
	ErrInconsistentTopicID = errors.New("inconsistent topic id")
	// ErrStaleReplica means that a fetch is rejected, because it comes from a follower with an old
	// broker epoch or replica incarnation, or from a broker that is not a replica of the partition.
	ErrStaleReplica = errors.New("stale replica, or not a replica of the partition")
)

// PartitionID identifies a partition by topic name and index.
type PartitionID = logstore.PartitionID

// Set is the set of partition replicas on this broker.
type Set struct {
	node            int32
	store           *logstore.Store
	logger          *slog.Logger
	metrics         *metrics
	view            atomic.Pointer[view]
	produces        *timer.Purgatory[PartitionID]
	consumerFetches *timer.Purgatory[PartitionID]
	followerFetches *timer.Purgatory[PartitionID]
	lagMax          atomic.Int64 // value of type time.Duration
	verifier        Verifier     // nil if transactional batches are refused
	lostLog         func()
	catchUp, moves  catchUpThrottle
	latest          atomic.Pointer[metadata.Image] // nil before the first Apply
	// refusedUntil is set when a request has waited unsuccessfully for this broker to lead.
	refusedUntil deadline

	applier    applier
	fetchers   fetchers
	isrUpdater isrUpdater
	sessions   sessions
}

// view is the result of applying a metadata image. It is immutable, except that its partitions'
// roles change.
type view struct {
	image      *metadata.Image
	partitions map[PartitionID]*partition // partitions with a replica on this broker
}

// ChangeISR is the type of the method metadata.Store.ChangeISR.
type ChangeISR = func(ctx context.Context, changes []metadata.ISRChange,
	settled metadata.SettledISR)

// Options contains the options of NewSet.
type Options struct {
	NodeID int32
	// Cluster is the id of the cluster to which the store's logs belong; "" if the store contains no
	// logs.
	Cluster string
	Store   *logstore.Store
	// RecordedLosses contains the losses that the metadata store records before the first image; nil
	// if there are none (LossesOf).
	RecordedLosses *metadata.Losses
	// Registry registers the metrics of the set and its purgatories; it may be nil.
	Registry prometheus.Registerer
	Logger   *slog.Logger // logger; by default, messages are discarded

	// Dial connects to another broker, from which the set copies partitions. If Dial is nil, the set
	// follows no leader.
	Dial Dial
	// ChangeISR updates the ISR in the metadata. If ChangeISR is nil, only images change the ISR.
	ChangeISR ChangeISR
	// Verifier asks transaction coordinators whether a transaction includes a partition. If Verifier
	// is nil, the set accepts no transactional batch from a client.
	Verifier Verifier
	// LostLog is called, within a request, when this broker finds that it leads a partition whose log
	// has lost records. The owner of the set then calls Apply with the newest image, and so also
	// reports the loss. LostLog may be nil.
	LostLog func()
	// LagMax is how long a follower that is not caught up stays in the ISR. An image may set another
	// value. The default is 10 s. Kafka's default for replica.lag.time.max.ms is 30 s.
	LagMax time.Duration
}

const lagMaxDefault = 10 * time.Second

// NewSet returns a set without partitions. Apply adds partitions, and Close ends the set.
func NewSet(opts Options) *Set {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.LagMax <= 0 {
		opts.LagMax = lagMaxDefault
	}
	if opts.LostLog == nil {
		opts.LostLog = func() {}
	}
	purgatory := func(operation string) *timer.Purgatory[PartitionID] {
		return timer.NewPurgatory[PartitionID](timer.Options{Operation: operation,
			Registry: opts.Registry, Logger: opts.Logger})
	}
	s := &Set{
		node:            opts.NodeID,
		store:           opts.Store,
		logger:          opts.Logger,
		metrics:         newMetrics(opts.Registry),
		produces:        purgatory("produce"),
		consumerFetches: purgatory("fetch"),
		followerFetches: purgatory("replica_fetch"),
		catchUp:         newCatchUpThrottle(),
		moves:           newCatchUpThrottle(),
		verifier:        opts.Verifier,
		lostLog:         opts.LostLog,
	}
	s.applier = applier{set: s, cluster: opts.Cluster, recordedLosses: recordedAs(opts.RecordedLosses),
		defaults: metadata.Replication{LagMax: opts.LagMax}}
	s.fetchers.set, s.fetchers.dial = s, opts.Dial
	s.fetchers.running = map[fetcherKey]*fetcher{}
	s.sessions.set = s
	s.lagMax.Store(int64(opts.LagMax))
	s.isrUpdater.start(s, opts.ChangeISR)
	s.view.Store(&view{image: metadata.NewImage("", metadata.CleanerBudget{}, nil, nil)})
	s.store.OnDurableEnd(s.logSynced)
	return s
}

// logSynced is called by the store after a log has been synced or has failed. On a leader it
// advances the high watermark and wakes producers. On a follower it wakes the fetcher, whose next
// fetch reports the durable end offset to the leader.
//
// If the log of a follower has failed, the fetcher removes the partition from its session at once.
// Otherwise a later fetch could arrive after this broker has left the ISR, and the leader would add
// the broker again.
func (s *Set) logSynced(id PartitionID) {
	p := s.view.Load().partitions[id]
	if p == nil || p.log == nil {
		return
	}
	if r := p.role.Load(); r.leaderState == nil {
		s.fetchers.logSynced(r.leader)
		if p.log.Fault() != nil {
			s.fetchers.logStopped(r.leader, id)
		}
	}
	if r := p.role.Load(); r.leaderState != nil && r.leaderState.advance(time.Now()) {
		s.highWatermarkAdvanced(p, r)
		return
	}
	s.notify(id)
}

// Leader returns the log of a partition that this broker leads. It fails if this is not the leader
// epoch that the client sent (-1: any).
func (s *Set) Leader(id PartitionID, epoch int32) (*logstore.Log, error) {
	p, _, err := s.leader(id, epoch)
	if err != nil {
		return nil, err
	}
	return p.log, nil
}

// Log returns the log of a partition that this broker leads or follows, or ErrNotLeader if it has
// no replica of the partition.
func (s *Set) Log(id PartitionID) (*logstore.Log, error) {
	view := s.view.Load()
	p := view.partitions[id]
	switch {
	case p == nil:
		return nil, view.missing(id)
	case p.log == nil: // the partition's disk has failed
		return nil, ErrNotLeader
	}
	return p.log, nil
}

// CheckEndOffset fails with ErrOffsetNotAvailable while a new leader's high watermark is below the
// start of its leader epoch. Until then the previous leader's high watermark may have been higher,
// so the leader could return an end offset below one that consumers have already received
// (KIP-207).
func (s *Set) CheckEndOffset(id PartitionID) error {
	_, _, err := s.LeaderOfNewest(id)
	return err
}

// LeaderOfNewest is like Leader, for a reader whose result depends on the newest acknowledged
// records. It fails under the same conditions as CheckEndOffset. After its reads, the reader passes
// epoch to Leader. If Leader then fails, another broker may have acknowledged newer records during
// the reads.
func (s *Set) LeaderOfNewest(id PartitionID) (log *logstore.Log, epoch int32, err error) {
	p, r, err := s.leader(id, -1)
	if err != nil {
		return nil, 0, err
	}
	if hw := p.log.HighWatermark(); hw < r.leaderState.epochStart {
		return nil, 0, fmt.Errorf("%w: the high watermark is %d, the leader epoch starts at %d",
			ErrOffsetNotAvailable, hw, r.leaderState.epochStart)
	}
	return p.log, r.epoch, nil
}

// leader returns a partition that this broker leads, and its current role.
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

// missing returns the error for a partition that is not on this broker: it does not exist, or only
// other brokers have it.
func (v *view) missing(id PartitionID) error {
	if topic := v.image.Topic(id.Topic); topic != nil && id.Index >= 0 &&
		int(id.Index) < len(topic.Partitions) {
		return ErrNotLeader
	}
	return ErrUnknownPartition
}

// notify wakes the producers and consumers that wait for a partition, so that they evaluate it
// again.
func (s *Set) notify(id PartitionID) {
	s.produces.Notify(id)
	s.notifyConsumers(id)
}

// notifyConsumers wakes the consumers that wait for a partition, so that they evaluate it again.
func (s *Set) notifyConsumers(id PartitionID) {
	s.consumerFetches.Notify(id)
	s.sessions.markConsumers(id)
}

// notifyFollowers wakes the followers that wait for a partition, because there are records to copy
// or the leader epoch has changed.
func (s *Set) notifyFollowers(id PartitionID) {
	s.followerFetches.Notify(id)
	s.sessions.markFollowers(id, true)
}

// highWatermarkAdvanced is called after the high watermark of a partition that this broker leads
// has advanced.
func (s *Set) highWatermarkAdvanced(p *partition, r *role) {
	s.notify(p.id)
	switch {
	case len(r.replicas) < 2:
	case r.pushHighWatermark:
		s.notifyFollowers(p.id)
	default:
		s.sessions.markFollowers(p.id, false)
	}
}

// wait returns when an operation has ended. It cancels the operation when ctx ends or when
// interrupt is closed (interrupt may be nil). After cancelling, it still waits for done, because at
// that moment the operation may be completing and writing the results for the caller.
func wait(ctx context.Context, waiting timer.Waiting[PartitionID], interrupt,
	done <-chan struct{}) {
	select {
	case <-done:
		return
	// For an operation that has ended, avoid ctx.Done: its first call starts a goroutine that watches
	// the connection.
	default:
	}
	select {
	case <-done:
	case <-interrupt:
		waiting.Cancel()
		<-done
	case <-ctx.Done():
		waiting.Cancel()
		<-done
	}
}

// Close ends all waiting requests, and stops copying and proposing ISR updates. The store remains
// open.
func (s *Set) Close() {
	s.fetchers.close()
	s.isrUpdater.close()
	s.produces.Close()
	s.consumerFetches.Close()
	s.followerFetches.Close()
}
