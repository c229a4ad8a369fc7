package replica

import (
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/isr"
)

// leaderState is this broker's leadership of a partition in one leader epoch. It combines the pure
// isr.State with a lock, and with the log whose high watermark that state determines.
//
// mu is held while the high watermark is computed and advanced, and while an ISR update is
// proposed. So a proposal and an advance never overlap: an advance after the proposal includes the
// proposed follower, and the proposal is based on the current high watermark. No I/O is done under
// mu.
type leaderState struct {
	log        *logstore.Log
	epochStart int64 // first offset of this leader epoch
	mu         struct {
		sync.Mutex
		isr *isr.State
		// minISR is the number of replicas that must be in sync before the high watermark can advance. It
		// is at most the number of replicas.
		minISR      int
		brokerEpoch int64 // broker epoch of this broker; -1 if the metadata image does not contain it
		// ended is true if a later leader epoch has begun. Then the high watermark must not advance.
		ended bool
	}
}

func newLeaderState(log *logstore.Log, state *isr.State) *leaderState {
	l := &leaderState{log: log, epochStart: state.EpochStart()}
	l.mu.isr, l.mu.brokerEpoch = state, -1
	return l
}

// configure sets the parameters that can change within a leader epoch: how many replicas must be in
// sync, and how long a follower that is not caught up stays in the ISR.
func (l *leaderState) configure(minISR int, lagMax time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.minISR = minISR
	l.mu.isr.SetLagMax(lagMax)
}

// applyImage passes a metadata image of this leader epoch to the ISR state. It returns the recorded
// ISR before and after the call. The two differ if a member is no longer a replica.
func (l *leaderState) applyImage(img *metadata.Image, p *metadata.Partition,
	now time.Time) (before, after []int32) {
	replicas := make([]isr.Replica, 0, len(p.Replicas))
	for _, id := range p.Replicas {
		replicas = append(replicas, isr.Replica{Broker: id, LiveEpoch: liveEpoch(img, id),
			Incarnation: p.ReplicaIncarnation(id), RecordedEpoch: -1})
	}
	indexOf := func(id int32) int {
		return slices.IndexFunc(replicas, func(r isr.Replica) bool { return r.Broker == id })
	}
	for i, id := range p.ISR {
		if index := indexOf(id); index >= 0 && i < len(p.ISREpochs) {
			replicas[index].RecordedEpoch = p.ISREpochs[i]
		}
	}
	for _, m := range p.Fenced {
		if index := indexOf(m.Broker); index >= 0 {
			replicas[index].FencedBelow = m.Epoch + 1
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.brokerEpoch = liveEpoch(img, l.mu.isr.Self())
	before = l.mu.isr.Recorded()
	l.mu.isr.ApplyImage(replicas, p.ISR, p.PartitionEpoch, now)
	return before, l.mu.isr.Recorded()
}

// liveEpoch returns the epoch of a broker that is up and not in controlled shutdown, and -1 for
// other brokers.
func liveEpoch(img *metadata.Image, id int32) int64 {
	if broker, up := img.Broker(id); up && !broker.Leaving {
		return broker.Epoch
	}
	return -1
}

// advance advances the high watermark to the smallest durable end offset over the maximal ISR, and
// reports whether the high watermark moved. The high watermark does not move while fewer replicas
// are in sync than the topic requires (KIP-966). So every record that consumers have read is on at
// least that many replicas.
func (l *leaderState) advance(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.advanceLocked(now)
}

func (l *leaderState) advanceLocked(now time.Time) bool {
	// Read LogEnd before DurableEnd, so that a record that is appended between the two calls cannot
	// make a follower appear to lag.
	end := l.log.LogEnd()
	l.mu.isr.SetLogEnd(end)
	if l.mu.ended || len(l.mu.isr.Recorded()) < l.mu.minISR {
		return false
	}
	return l.log.AdvanceHighWatermark(l.mu.isr.HighWatermark(l.log.DurableEnd(), end, now))
}

// fetched processes a follower's fetch. ok is false if the fetch was rejected. advanced reports
// whether the high watermark has advanced. evaluate reports whether the ISR must be evaluated: the
// follower may have to leave the ISR or may be able to join it, or an ISR update may have waited
// for this fetch, because it is the first in the follower's broker epoch.
func (l *leaderState) fetched(from fetchingFollower, want *FetchPartition,
	now time.Time) (advanced, evaluate, ok bool) {
	fetch := isr.Fetch{From: from.InSync, DurableEnd: min(want.DurableEnd, want.Offset),
		LogStart: want.LogStart, TombstoneClean: want.TombstoneClean}
	if from.session != nil {
		fetch.Session = from.session
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	leaderEnd := l.log.LogEnd()
	l.mu.isr.SetLogEnd(leaderEnd)
	if l.mu.ended {
		return false, false, false
	}
	first, ok := l.mu.isr.Fetched(fetch, leaderEnd, now)
	if !ok {
		return false, false, false
	}
	advanced = l.advanceLocked(now)
	member := l.mu.isr.IsRecorded(from.Broker)
	complete := fetch.DurableEnd >= l.log.HighWatermark()
	mustLeave, mayJoin := member && !complete,
		!member && complete && fetch.DurableEnd >= l.epochStart
	return advanced, first || mustLeave || mayJoin, true
}

func (l *leaderState) sessionClosed(follower int32, session *lastFetch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.isr.SetLogEnd(l.log.LogEnd())
	l.mu.isr.SessionClosed(follower, session)
}

// processExited processes a sign that a broker's process has exited, and reports whether the sign
// is new.
func (l *leaderState) processExited(member metadata.InSync) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.ended && l.mu.isr.ProcessExited(member)
}

// propose returns the ISR update that must be sent now, if any; see isr.State.Propose.
func (l *leaderState) propose(now time.Time) (from []int32, to []metadata.InSync, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		return nil, nil, false
	}
	end := l.log.LogEnd()
	l.mu.isr.SetLogEnd(end)
	log := isr.Extent{Start: l.log.LogStart(), HighWatermark: l.log.HighWatermark(), End: end}
	return l.mu.isr.Propose(l.mu.brokerEpoch, log, now)
}

// withdraw discards a proposed update that was not sent.
func (l *leaderState) withdraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.isr.Withdraw()
}

// settle processes the outcome of an update. It returns the recorded ISR before and after the
// update, and whether the high watermark has advanced.
func (l *leaderState) settle(outcome isr.Outcome, partitionEpoch int64,
	now time.Time) (before, after []int32, advanced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ended {
		return nil, nil, false
	}
	before = l.mu.isr.Recorded()
	l.mu.isr.Settle(outcome, partitionEpoch, now)
	return before, l.mu.isr.Recorded(), l.advanceLocked(now)
}

// end ends the leadership. After it returns, this leader epoch no longer advances the high
// watermark.
func (l *leaderState) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ended = true
}

// isrSize returns the number of replicas in the recorded ISR.
func (l *leaderState) isrSize() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.isr.Recorded())
}

// recordedISR returns the recorded ISR.
func (l *leaderState) recordedISR() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.mu.isr.Recorded())
}

func (l *leaderState) isRecorded(broker int32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.IsRecorded(broker)
}

func (l *leaderState) canServe(broker int32, offset int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.CanServe(broker, offset)
}

func (l *leaderState) tombstoneCleanOffset(own int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.TombstoneCleanOffset(own)
}

func (l *leaderState) tombstonesWaitFor(offset int64) []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.TombstonesWaitFor(offset)
}

func (l *leaderState) lowestLogStart(own int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.LowestLogStart(own)
}

func (l *leaderState) lags() map[int32]int64 {
	end := l.log.LogEnd()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.isr.Lags(end)
}
