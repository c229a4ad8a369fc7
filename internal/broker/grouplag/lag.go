package grouplag

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/lag"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

const (
	// interval is the time between two rounds. retry is the time after a round in which a shard or a
	// leader did not respond.
	interval, retry = 15 * time.Second, 5 * time.Second
	// timeout limits the wait for the coordinator's shards, and then the wait for all leaders
	// together.
	timeout = 5 * time.Second
	// pairsMax limits the number of exported series per broker.
	pairsMax = 100
)

// Lag computes the lag of the groups that a broker coordinates, in rounds. All fields except state
// belong to the goroutine of Run.
type Lag struct {
	opts   Options
	peers  map[int32]*Peer
	ends   map[lag.Partition]knownEnd // end offsets from the previous round
	faults outage.State
	// incomplete is the number of rounds since the last complete one.
	incomplete int

	state atomic.Pointer[State]
}

// Options contains the parts of the broker that Lag uses.
type Options struct {
	NodeID int32
	Serves <-chan struct{} // closed once requests are accepted
	Image  func() *metadata.Image
	// Committed returns the committed offsets of the groups that this broker coordinates.
	Committed func(context.Context, coordinator.KeepOffset) ([]lag.Committed, error)
	Replicas  *replica.Set
	Dial      func(context.Context, metadata.Broker) (*wire.Peer, error)
	Logger    *slog.Logger
}

// State is the immutable result of a round.
type State struct {
	lag.Summary
	// Unanswered is the number of partitions whose leader did not respond in the last round.
	Unanswered int
	Success    time.Time // end of the last complete round; zero: no round has been complete
}

// knownEnd is a partition's last known end offset, and the topic's id.
type knownEnd struct {
	topic metadata.ID
	end   int64
}

// Peer is a connection to a leader. It is kept for the next round.
type Peer struct {
	*wire.Peer
	to metadata.Broker
}

// New returns a Lag without results. The caller must call Run.
func New(opts Options) *Lag {
	g := &Lag{opts: opts, peers: map[int32]*Peer{}}
	g.state.Store(&State{})
	return g
}

// Run computes the lag until ctx ends. It starts once the broker accepts requests.
func (g *Lag) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-g.opts.Serves:
	}
	defer g.Close()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := g.Round(ctx)
		if ctx.Err() != nil {
			return
		}
		next.Reset(g.ended(err))
	}
}

// Last returns the last round's result.
func (g *Lag) Last() *State { return g.state.Load() }

// Peers returns the connections to leaders that are kept for the next round.
func (g *Lag) Peers() map[int32]*Peer { return g.peers }

// Close closes the connections to leaders.
func (g *Lag) Close() {
	for _, peer := range g.peers {
		_ = peer.Close()
	}
}

// ended logs the end of a round and returns the time until the next round. A single incomplete
// round is not logged, because shards often load and leaders often change.
func (g *Lag) ended(err error) time.Duration {
	if err == nil {
		g.incomplete = 0
		if failed, ends := g.faults.Succeed(); ends {
			g.opts.Logger.Info("the lag of consumer groups is complete again", "failed", failed)
		}
		return interval
	}
	if g.incomplete++; g.incomplete > 1 && g.faults.Fail(time.Now()) {
		g.opts.Logger.Warn("failed to compute the lag of all consumer groups",
			"error", outage.Brief(err))
	}
	return retry
}

// Round computes the lag. The error names the shards and leaders that did not respond.
func (g *Lag) Round(ctx context.Context) error {
	image := g.opts.Image()
	reading, cancel := context.WithTimeout(ctx, timeout)
	committed, err := g.opts.Committed(reading, keepExisting(image))
	cancel()
	if err != nil {
		err = fmt.Errorf("read committed offsets: %w", err)
	}
	ends, unanswered, askErr := g.endOffsets(ctx, image, lag.Partitions(committed))
	err = errors.Join(err, askErr)
	next := &State{Summary: lag.Summarize(committed, ends, pairsMax),
		Unanswered: unanswered, Success: g.state.Load().Success}
	if err == nil {
		next.Success = time.Now()
	}
	g.state.Store(next)
	return err
}

// keepExisting returns a filter that selects committed offsets of existing partitions. Offsets of
// deleted topics have no lag, and the coordinator will delete them.
func keepExisting(image *metadata.Image) func(string, [16]byte, int32) bool {
	return func(name string, id [16]byte, partition int32) bool {
		topic := image.Topic(name)
		return topic != nil && (id == metadata.ID{} || topic.ID == id) &&
			int(partition) < len(topic.Partitions)
	}
}

// endOffsets returns the partitions' end offsets. partitions must be sorted. If a leader does not
// respond, its partitions get their last known end offsets; unanswered is the number of these
// partitions.
func (g *Lag) endOffsets(ctx context.Context, image *metadata.Image, partitions []lag.Partition) (
	ends map[lag.Partition]int64, unanswered int, err error) {
	byLeader := map[int32][]data.EndOffset{}
	for _, partition := range partitions {
		p := image.Topic(partition.Topic).Partitions[partition.Index]
		byLeader[p.Leader] = append(byLeader[p.Leader], data.EndOffset{
			ID:          replica.PartitionID{Topic: partition.Topic, Index: partition.Index},
			LeaderEpoch: p.LeaderEpoch})
	}
	answers, err := g.askAll(ctx, image, byLeader)
	before := g.ends
	ends, g.ends = map[lag.Partition]int64{}, map[lag.Partition]knownEnd{}
	for _, partition := range partitions {
		topic := image.Topic(partition.Topic).ID
		known := knownEnd{topic: topic}
		end, answered := answers[replica.PartitionID{Topic: partition.Topic, Index: partition.Index}]
		if known.end = end; !answered {
			unanswered++
			if known = before[partition]; known.topic != topic {
				continue
			}
		}
		ends[partition], g.ends[partition] = known.end, known
	}
	if unanswered > 0 && err == nil {
		err = fmt.Errorf("%d partitions have no leader that knows their end offset", unanswered)
	}
	return ends, unanswered, err
}

// askAll requests the end offsets from all leaders concurrently. It closes kept connections to
// brokers that are no longer leaders.
func (g *Lag) askAll(ctx context.Context, image *metadata.Image,
	byLeader map[int32][]data.EndOffset) (map[replica.PartitionID]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		errs   []error
		all    = map[replica.PartitionID]int64{}
		kept   = map[int32]*Peer{}
	)
	for leader, endOffsets := range byLeader {
		if leader == g.opts.NodeID {
			mu.Lock()
			g.local(endOffsets, all)
			mu.Unlock()
			continue
		}
		to, up := image.Broker(leader)
		if !up {
			continue // the leader's partitions then count as unanswered
		}
		before := g.peers[leader]
		delete(g.peers, leader)
		asking.Go(func() {
			ends, peer, err := g.ask(ctx, before, to, endOffsets)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(all, ends)
			if err != nil {
				errs = append(errs, fmt.Errorf("ask broker %d for end offsets: %w", leader, err))
			} else {
				kept[leader] = peer
			}
		})
	}
	asking.Wait()
	for _, unused := range g.peers {
		_ = unused.Close()
	}
	g.peers = kept
	return all, errors.Join(errs...)
}

// local adds the end offsets of the partitions that this broker leads.
func (g *Lag) local(endOffsets []data.EndOffset, to map[replica.PartitionID]int64) {
	for _, asked := range endOffsets {
		log, err := g.opts.Replicas.Leader(asked.ID, asked.LeaderEpoch)
		if err == nil && g.opts.Replicas.CheckEndOffset(asked.ID) == nil {
			to[asked.ID] = log.HighWatermark()
		}
	}
}

// ask requests end offsets from a leader. It reuses the connection of the previous round if that
// still works. It returns the connection for the next round, or closes it after an error.
func (g *Lag) ask(ctx context.Context, peer *Peer, to metadata.Broker,
	endOffsets []data.EndOffset) (map[replica.PartitionID]int64, *Peer, error) {
	if peer != nil {
		if peer.to.Epoch == to.Epoch && peer.to.Peer == to.Peer {
			if ends, err := peer.endOffsets(ctx, endOffsets); err == nil {
				return ends, peer, nil
			}
		}
		_ = peer.Close()
	}
	connection, err := g.opts.Dial(ctx, to)
	if err != nil {
		return nil, nil, err
	}
	peer = &Peer{connection, to}
	ends, err := peer.endOffsets(ctx, endOffsets)
	if err != nil {
		_ = peer.Close()
		return nil, nil, err
	}
	return ends, peer, nil
}

// endOffsets requests end offsets, in several requests if necessary.
func (p *Peer) endOffsets(ctx context.Context, endOffsets []data.EndOffset) (
	map[replica.PartitionID]int64, error) {
	all := map[replica.PartitionID]int64{}
	for some := range slices.Chunk(endOffsets, data.EndOffsetsMax) {
		body, err := p.Do(ctx, data.EndOffsetsCall(some))
		if err != nil {
			return nil, err
		}
		ends, err := data.DecodeEndOffsets(body)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, ends)
	}
	return all, nil
}
