package replica

import (
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// reign is this broker's leadership of a partition in one leader epoch: the isr, and the log whose
// high watermark follows from it.
//
// mu is held while the high watermark is worked out and moved, and while a change of the ISR is
// decided on. So none of the two ever goes by what the other has just made untrue: a high watermark
// that was worked out before a follower was proposed for the ISR has moved by then, and the
// proposal was made for that one. It is held for moments, and no I/O is done under it.
type reign struct {
	log   *logstore.Log
	start int64 // where this leader epoch begins in the log
	mu    struct {
		sync.Mutex
		isr *isr
		// as many in sync are needed for the high watermark to move; at most the number of replicas
		minISR int
		own    int64 // this broker's incarnation, -1 if the image does not have it
		over   bool  // another leader epoch has begun: nothing moves any more
	}
}

func newReign(log *logstore.Log, isr *isr) *reign {
	g := &reign{log: log, start: isr.start}
	g.mu.isr, g.mu.own = isr, -1
	return g
}

// configure takes over what may change within a leader epoch: how many have to be in sync, and how
// long one that is may be behind.
func (g *reign) configure(minISR int, lagMax time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.minISR, g.mu.isr.lagMax = minISR, lagMax
}

// image passes an image of this leader epoch on. It returns the ISR before and after: a member
// whose incarnation has ended is out of it before that is on record.
func (g *reign) image(img *metadata.Image, p *metadata.Partition, now time.Time) (before,
	after []int32) {
	states := make([]replicaState, 0, len(p.Replicas))
	for _, id := range p.Replicas {
		states = append(states,
			replicaState{broker: id, living: living(img, id), assignment: p.ReplicaIncarnation(id),
				recorded: -1})
	}
	at := func(id int32) int {
		return slices.IndexFunc(states, func(s replicaState) bool { return s.broker == id })
	}
	for i, id := range p.ISR {
		if to := at(id); to >= 0 && i < len(p.ISREpochs) {
			states[to].recorded = p.ISREpochs[i]
		}
	}
	for _, m := range p.Fenced {
		if to := at(m.Broker); to >= 0 {
			states[to].over = m.Epoch + 1
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.own = living(img, g.mu.isr.self)
	before = g.mu.isr.committed
	g.mu.isr.image(states, p.ISR, now)
	return before, g.mu.isr.committed
}

// living is the incarnation of a broker that is up and stays, -1 if there is none.
func living(img *metadata.Image, id int32) int64 {
	if broker, up := img.Broker(id); up && !broker.Leaving {
		return broker.Epoch
	}
	return -1
}

// advance moves the high watermark as far as all who may be in sync vouch for the log, and tells
// whether it moved. It stays where it is while fewer are in sync than the topic asks for (KIP-966):
// what consumers have seen is on as many.
func (g *reign) advance(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.advanceLocked(now)
}

func (g *reign) advanceLocked(now time.Time) bool {
	// before SafeEnd, which is at most the end of its moment: a follower cannot be behind for what
	// comes meanwhile
	end := g.log.LogEnd()
	g.mu.isr.grown(end)
	if g.mu.over || len(g.mu.isr.committed) < g.mu.minISR {
		return false
	}
	return g.log.AdvanceHighWatermark(g.mu.isr.highWatermark(g.log.SafeEnd(), end, now))
}

// fetched takes in a follower's fetch. moved tells whether the high watermark did, review whether
// the ISR may have to change, or may now: a change waits for the first fetch of all who stay.
func (g *reign) fetched(from asker, want *FetchPartition, now time.Time) (moved, review, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.mu.isr.members[from.Broker]
	first := f != nil && f.epoch != from.Epoch
	end, leaderEnd := min(want.DurableEnd, want.Offset), g.log.LogEnd()
	g.mu.isr.grown(leaderEnd)
	if g.mu.over || !g.mu.isr.fetched(from.InSync, end, leaderEnd, now) {
		return false, false, false
	}
	f.lonely, f.logStart, f.asks = want.TombstoneClean, want.LogStart, from.asks
	moved = g.advanceLocked(now)
	member, has := slices.Contains(g.mu.isr.committed, from.Broker), end >= g.log.HighWatermark()
	return moved, first || member && !has || !member && has && end >= g.start, true
}

// asksNoMore is told that a follower's session has this partition no more.
func (g *reign) asksNoMore(follower int32, asks *lastAsk) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.isr.grown(g.log.LogEnd())
	g.mu.isr.asksNoMore(follower, asks)
}

// processEnded takes in a sign that a broker's process has ended; it is false if that changes
// nothing.
func (g *reign) processEnded(of metadata.InSync) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.mu.over && g.mu.isr.processEnded(of)
}

// propose returns the change of the ISR that is to be asked for now.
func (g *reign) propose(now time.Time) (from []int32, to []metadata.InSync, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.over {
		return nil, nil, false
	}
	end := g.log.LogEnd()
	g.mu.isr.grown(end)
	return g.mu.isr.propose(g.mu.own, extent{g.log.LogStart(), g.log.HighWatermark(), end}, now)
}

// withdraw takes back a proposal that was not asked for.
func (g *reign) withdraw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.isr.proposal = nil
}

// settled takes in how that came out. It returns the ISR before and after, and whether the high
// watermark moved.
func (g *reign) settled(o outcome, now time.Time) (before, after []int32, moved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.over {
		return nil, nil, false
	}
	before = g.mu.isr.committed
	g.mu.isr.settled(o, now)
	return before, g.mu.isr.committed, g.advanceLocked(now)
}

// end ends the reign. Once it returns, nothing moves the high watermark on its behalf.
func (g *reign) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.over = true
}

// inSync is how many replicas are in sync, as far as is known for sure.
func (g *reign) inSync() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.isr.committed)
}

// lonely is below which offset the tombstones of all replicas are.
func (g *reign) lonely(own int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.isr.lonely(own)
}

// isInSync tells whether a replica is in the ISR for sure.
func (g *reign) isInSync(id int32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.mu.isr.committed, id)
}

// holds tells whether a consumer can read at offset from a follower: it is in sync, alive, and has
// records there.
func (g *reign) holds(id int32, offset int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.mu.isr.members[id]
	return f != nil && f.living >= 0 && f.end >= offset && slices.Contains(g.mu.isr.committed, id)
}

// lags lists how many offsets each follower is behind the log end, of those that have fetched.
func (g *reign) lags() map[int32]int64 {
	end := g.log.LogEnd()
	g.mu.Lock()
	defer g.mu.Unlock()
	lags := make(map[int32]int64, len(g.mu.isr.members))
	for id, f := range g.mu.isr.members {
		if f.end >= 0 {
			lags[id] = max(0, end-f.end)
		}
	}
	return lags
}
