package logstore

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// cleaningProgress is the replicated cleaning progress of a partition, as this log knows it: the
// offset below which no replica holds a record older than its tombstones, and the time at which
// each such offset became known (X1, X3). The progress only bounds the records that a pass may
// remove, so a reader may use an older value: a bound that was valid once stays valid.
type cleaningProgress struct {
	// replicated is the last value of SetReplicasTombstoneClean: progressUnknown before the first
	// call, onlyReplica for a log without other replicas.
	replicated atomic.Int64
	mu         struct {
		sync.Mutex // a leaf
		steps      clean.CleaningProgress
		// waitsAt is clean.Stats.AwaitsReplicasAt of the last pass: -1 if no tombstone waits, or if
		// this is not known, as after a restart.
		waitsAt int64
	}
}

const (
	progressUnknown = -1
	onlyReplica     = math.MaxInt64
)

// restore sets the progress to the saved steps when a log that ends at end is opened.
func (p *cleaningProgress) restore(steps clean.CleaningProgress, end int64) {
	p.replicated.Store(progressUnknown)
	p.mu.steps, p.mu.waitsAt = steps.Truncate(end), -1
}

// advance adds the offset that all replicas have reached by now. own is this replica's
// tombstone-clean offset. When replicas are added to a partition with one replica, only the
// progress below own remains valid, because the new replicas copy the records that this replica has
// then.
func (p *cleaningProgress) advance(offset, own int64, now time.Time, retention time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset != onlyReplica {
		p.mu.steps = withoutOnlyReplica(p.mu.steps, own)
	}
	p.mu.steps = p.mu.steps.Add(offset, now, retention)
	p.replicated.Store(offset)
}

// withoutOnlyReplica returns the steps that remain when a log gets other replicas.
func withoutOnlyReplica(steps clean.CleaningProgress, own int64) clean.CleaningProgress {
	if n := len(steps); n > 0 && steps[n-1].Below == onlyReplica {
		return steps.Truncate(own)
	}
	return steps
}

// forPass returns the steps that a pass may use. The steps end at the last replicated value, which
// a leader lowers while it does not have the progress of all replicas.
func (p *cleaningProgress) forPass() clean.CleaningProgress {
	replicated := p.replicated.Load()
	if replicated == progressUnknown {
		return clean.SingleReplica()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.steps.Truncate(replicated)
}

// truncate discards the progress at and above an offset, because other records may be appended
// there. The progress is unknown until the leader sends its next value.
func (p *cleaningProgress) truncate(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.steps = p.mu.steps.Truncate(offset)
	if p.replicated.Load() != progressUnknown {
		p.replicated.Store(0)
	}
}

// saved returns the steps that the checkpoint stores.
func (p *cleaningProgress) saved(own int64) clean.CleaningProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return withoutOnlyReplica(p.mu.steps, own)
}

// setWaitsAt records the first tombstone that the last pass kept because of other replicas.
func (p *cleaningProgress) setWaitsAt(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waitsAt = offset
}

// due returns when the log needs a pass for its tombstones (ms): at the horizon that the last pass
// returned, or one retention time after all replicas have reached the tombstone that the last pass
// kept because of other replicas.
func (p *cleaningProgress) due(horizon int64, retention time.Duration) int64 {
	p.mu.Lock()
	waitsAt := p.mu.waitsAt
	p.mu.Unlock()
	if waitsAt < 0 {
		return horizon
	}
	since, ok := p.forPass().Since(waitsAt)
	if !ok {
		return horizon
	}
	return min(horizon, since+retention.Milliseconds())
}
