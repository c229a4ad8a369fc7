package broker

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
	// groupLagInterval is the time between two computations of the lag of groups, and
	// groupLagRetry that after one in which a shard or a leader has not answered.
	groupLagInterval, groupLagRetry = 15 * time.Second, 5 * time.Second
	// groupLagTimeout limits the wait for the shards, and then for all leaders together.
	groupLagTimeout = 5 * time.Second
	// groupLagPairs limits the exported series of a broker.
	groupLagPairs = 100
)

// groupLag computes the lag of the groups that this broker coordinates. In each round it reads the
// committed offsets of the loaded shards, and then asks the leader of each partition for its end
// offset, all leaders at once. While no group has committed an offset, it asks nobody.
//
// If a leader does not answer, the last known end offsets of its partitions count: while the leader
// is unavailable nothing is written there, so the lag is right, and it does not seem to vanish. The
// round then counts as incomplete, which the metrics show.
//
// Only the goroutine of run uses the fields except state.
type groupLag struct {
	opts   groupLagOptions
	peers  map[int32]*lagPeer
	ends   map[lag.Partition]knownEnd // of the previous round
	faults outage.State
	// incomplete is the number of rounds since the last complete one.
	incomplete int

	state atomic.Pointer[groupLagState]
}

// groupLagOptions are what a groupLag reads and calls of its broker.
type groupLagOptions struct {
	NodeID int32
	Serves <-chan struct{} // closed once requests are accepted
	Image  func() *metadata.Image
	// Committed returns the committed offsets of the groups that this broker coordinates.
	Committed func(context.Context, coordinator.KeepOffset) ([]lag.Committed, error)
	Replicas  *replica.Set
	Dial      func(context.Context, metadata.Broker) (*wire.Peer, error)
	Logger    *slog.Logger
}

// groupLagState is the result of a round. It is immutable.
type groupLagState struct {
	lag.Summary
	// unanswered is the number of partitions whose leader has not answered in the last round.
	unanswered int
	success    time.Time // end of the last complete round; zero: there was none
}

// knownEnd is an end offset of the topic with an id.
type knownEnd struct {
	topic metadata.ID
	end   int64
}

// lagPeer is a connection to a leader, which is kept for the next round.
type lagPeer struct {
	*wire.Peer
	to metadata.Broker
}

func newGroupLag(opts groupLagOptions) *groupLag {
	g := &groupLag{opts: opts, peers: map[int32]*lagPeer{}}
	g.state.Store(&groupLagState{})
	return g
}

// run computes the lag until ctx ends. It starts when requests are accepted.
func (g *groupLag) run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-g.opts.Serves:
	}
	defer g.close()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		err := g.round(ctx)
		if ctx.Err() != nil {
			return
		}
		next.Reset(g.ended(err))
	}
}

// close closes the connections to leaders.
func (g *groupLag) close() {
	for _, peer := range g.peers {
		_ = peer.Close()
	}
}

// ended logs the end of a round and returns the time until the next one. A single incomplete round
// is not logged: a shard loads, or a leader has just changed.
func (g *groupLag) ended(err error) time.Duration {
	if err == nil {
		g.incomplete = 0
		if failed, ends := g.faults.Succeed(); ends {
			g.opts.Logger.Info("the lag of consumer groups is complete again", "failed", failed)
		}
		return groupLagInterval
	}
	if g.incomplete++; g.incomplete > 1 && g.faults.Fail(time.Now()) {
		g.opts.Logger.Warn("failed to compute the lag of all consumer groups",
			"error", outage.Brief(err))
	}
	return groupLagRetry
}

// round computes the lag. The error says which shards and leaders have not answered.
func (g *groupLag) round(ctx context.Context) error {
	image := g.opts.Image()
	reading, cancel := context.WithTimeout(ctx, groupLagTimeout)
	committed, err := g.opts.Committed(reading, keepExisting(image))
	cancel()
	if err != nil {
		err = fmt.Errorf("read committed offsets: %w", err)
	}
	ends, unanswered, askErr := g.endOffsets(ctx, image, lag.Partitions(committed))
	err = errors.Join(err, askErr)
	next := &groupLagState{Summary: lag.Summarize(committed, ends, groupLagPairs),
		unanswered: unanswered, success: g.state.Load().success}
	if err == nil {
		next.success = time.Now()
	}
	g.state.Store(next)
	return err
}

// keepExisting returns a filter of the committed offsets of partitions that exist. The coordinator
// will delete the offsets of other topics; they have no lag.
func keepExisting(image *metadata.Image) func(string, [16]byte, int32) bool {
	return func(name string, id [16]byte, partition int32) bool {
		topic := image.Topic(name)
		return topic != nil && (id == metadata.ID{} || topic.ID == id) &&
			int(partition) < len(topic.Partitions)
	}
}

// endOffsets returns the end offsets of partitions, which are sorted. It returns the last known one
// of a partition whose leader does not answer, and the number of these partitions.
func (g *groupLag) endOffsets(ctx context.Context, image *metadata.Image, of []lag.Partition) (
	ends map[lag.Partition]int64, unanswered int, err error) {
	byLeader := map[int32][]data.EndOffset{}
	for _, at := range of {
		p := image.Topic(at.Topic).Partitions[at.Index]
		byLeader[p.Leader] = append(byLeader[p.Leader], data.EndOffset{
			ID:          replica.PartitionID{Topic: at.Topic, Index: at.Index},
			LeaderEpoch: p.LeaderEpoch})
	}
	answers, err := g.askAll(ctx, image, byLeader)
	before := g.ends
	ends, g.ends = map[lag.Partition]int64{}, map[lag.Partition]knownEnd{}
	for _, at := range of {
		topic := image.Topic(at.Topic).ID
		known := knownEnd{topic: topic}
		end, answered := answers[replica.PartitionID{Topic: at.Topic, Index: at.Index}]
		if known.end = end; !answered {
			unanswered++
			if known = before[at]; known.topic != topic {
				continue
			}
		}
		ends[at], g.ends[at] = known.end, known
	}
	if unanswered > 0 && err == nil {
		err = fmt.Errorf("%d partitions have no leader that knows their end offset", unanswered)
	}
	return ends, unanswered, err
}

// askAll asks all leaders at once, and closes the connections to other brokers.
func (g *groupLag) askAll(ctx context.Context, image *metadata.Image,
	byLeader map[int32][]data.EndOffset) (map[replica.PartitionID]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, groupLagTimeout)
	defer cancel()
	var (
		asking sync.WaitGroup
		mu     sync.Mutex
		errs   []error
		all    = map[replica.PartitionID]int64{}
		kept   = map[int32]*lagPeer{}
	)
	for leader, of := range byLeader {
		if leader == g.opts.NodeID {
			mu.Lock()
			g.local(of, all)
			mu.Unlock()
			continue
		}
		to, up := image.Broker(leader)
		if !up {
			continue // the partitions count as unanswered
		}
		before := g.peers[leader]
		delete(g.peers, leader)
		asking.Go(func() {
			ends, peer, err := g.ask(ctx, before, to, of)
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

// local adds the end offsets of partitions that this broker leads.
func (g *groupLag) local(of []data.EndOffset, to map[replica.PartitionID]int64) {
	for _, asked := range of {
		log, err := g.opts.Replicas.Leader(asked.ID, asked.LeaderEpoch)
		if err == nil && g.opts.Replicas.CheckEndOffset(asked.ID) == nil {
			to[asked.ID] = log.HighWatermark()
		}
	}
}

// ask asks a leader, on the connection of the previous round if it still works. It returns the
// connection for the next round, or an error after it has closed the connection.
func (g *groupLag) ask(ctx context.Context, peer *lagPeer, to metadata.Broker,
	of []data.EndOffset) (map[replica.PartitionID]int64, *lagPeer, error) {
	if peer != nil {
		if peer.to.Epoch == to.Epoch && peer.to.Peer == to.Peer {
			if ends, err := peer.endOffsets(ctx, of); err == nil {
				return ends, peer, nil
			}
		}
		_ = peer.Close()
	}
	connection, err := g.opts.Dial(ctx, to)
	if err != nil {
		return nil, nil, err
	}
	peer = &lagPeer{connection, to}
	ends, err := peer.endOffsets(ctx, of)
	if err != nil {
		_ = peer.Close()
		return nil, nil, err
	}
	return ends, peer, nil
}

// endOffsets sends as many requests as are needed.
func (p *lagPeer) endOffsets(ctx context.Context, of []data.EndOffset) (
	map[replica.PartitionID]int64, error) {
	all := map[replica.PartitionID]int64{}
	for some := range slices.Chunk(of, data.EndOffsetsMax) {
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
