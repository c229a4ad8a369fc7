package logstore

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// cleaningProgress is the replicated cleaning progress of a partition, as this log knows it: the
// offset below which no replica holds a record older than its tombstones, and since when that is
// known (X1, X3).
//
// It only bounds what a pass may remove, so a reader may see an older value: progress that was
// reached stays reached.
type cleaningProgress struct {
	// replicated is the last value of SetReplicasTombstoneClean: progressUnknown before the first
	// call, onlyReplica for a log without other replicas.
	replicated atomic.Int64
	mu         struct {
		sync.Mutex // a leaf
		steps      clean.CleaningProgress
		// waitsAt is clean.Stats.AwaitsReplicasAt of the last pass: -1 if nothing waits, or if that
		// is not known, as after a restart.
		waitsAt int64
	}
}

const (
	progressUnknown = -1
	onlyReplica     = math.MaxInt64
)

// restore sets the progress of a log that was opened, which ends at end, to what was saved.
func (p *cleaningProgress) restore(steps clean.CleaningProgress, end int64) {
	p.replicated.Store(progressUnknown)
	p.mu.steps, p.mu.waitsAt = steps.Truncate(end), -1
}

// advance adds the progress that all replicas have reached by now. own is this replica's
// tombstone-clean offset: when replicas are added, all that remains of the time in which it was the
// only replica, since the new replicas copy what it has then.
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

// forPass returns the steps that a pass may use. They end at the last replicated value: a leader
// that has not yet heard from all replicas lowers it.
func (p *cleaningProgress) forPass() clean.CleaningProgress {
	replicated := p.replicated.Load()
	if replicated == progressUnknown {
		return clean.SingleReplica()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.steps.Truncate(replicated)
}

// truncate forgets the progress from an offset on, where other records may be appended, and waits
// for the leader's next value.
func (p *cleaningProgress) truncate(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.steps = p.mu.steps.Truncate(offset)
	if p.replicated.Load() != progressUnknown {
		p.replicated.Store(0)
	}
}

// saved returns the steps for the checkpoint.
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
// returned, or one retention after all replicas reached the tombstone that waited for them.
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
