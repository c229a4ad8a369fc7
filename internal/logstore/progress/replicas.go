package progress

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// cleaningProgress is a partition's replicated cleaning progress, as far as this log knows it. Each
// step of the progress is an offset and the time at which this log learned the offset. No replica
// has a record that is older than a tombstone of the same key below that offset (cleaner invariants
// X1 and X3). The progress only limits which records a pass may remove, so a pass may use outdated
// progress: a step that was once valid stays valid.
type cleaningProgress struct {
	// replicated is the last argument of SetReplicasTombstoneClean, or progressUnknown before the
	// first call. It is onlyReplica for a log without other replicas.
	replicated atomic.Int64
	mu         struct {
		sync.Mutex // no other lock is acquired while it is held
		steps      clean.CleaningProgress
		// waitsAt is the last pass's clean.Stats.AwaitsReplicasAt: the offset of the first
		// tombstone that the pass kept because of other replicas. It is -1 if the pass kept no such
		// tombstone, or if no pass has run since the log was opened.
		waitsAt int64
	}
}

const (
	progressUnknown = -1
	onlyReplica     = math.MaxInt64
)

// restore initializes the progress when a log is opened. It uses the steps from the checkpoint up
// to the log end offset end.
func (p *cleaningProgress) restore(steps clean.CleaningProgress, end int64) {
	p.replicated.Store(progressUnknown)
	p.mu.steps, p.mu.waitsAt = steps.Truncate(end), -1
}

// advance adds a step: at the time now, all replicas have reached the given offset. own is this
// replica's tombstone-clean offset. If the partition previously had one replica and now has
// several, only the progress below own remains valid, because the new replicas copy the records
// that this replica has.
func (p *cleaningProgress) advance(offset, own int64, now time.Time, retention time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset != onlyReplica {
		p.mu.steps = withoutOnlyReplica(p.mu.steps, own)
	}
	p.mu.steps = p.mu.steps.Add(offset, now, retention)
	p.replicated.Store(offset)
}

// withoutOnlyReplica returns the steps that stay valid when other replicas are added to a
// partition. If this log was the only replica, these are the steps below own, otherwise all steps.
func withoutOnlyReplica(steps clean.CleaningProgress, own int64) clean.CleaningProgress {
	if n := len(steps); n > 0 && steps[n-1].Below == onlyReplica {
		return steps.Truncate(own)
	}
	return steps
}

// ForPass returns the steps that a pass may use. They end at the last offset that the leader sent.
// The leader sends a lower offset while it does not know the progress of all replicas.
func (p *cleaningProgress) ForPass() clean.CleaningProgress {
	replicated := p.replicated.Load()
	if replicated == progressUnknown {
		return clean.SingleReplica()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.steps.Truncate(replicated)
}

// truncate discards the progress at and above an offset, because other records may be appended
// there. If the leader has already sent an offset, passes then use no progress until the leader
// sends the next one.
func (p *cleaningProgress) truncate(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.steps = p.mu.steps.Truncate(offset)
	if p.replicated.Load() != progressUnknown {
		p.replicated.Store(0)
	}
}

// saved returns the steps for the checkpoint. The partition may have other replicas when the log is
// opened again, so saved omits the steps that are only valid for a single replica.
func (p *cleaningProgress) saved(own int64) clean.CleaningProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return withoutOnlyReplica(p.mu.steps, own)
}

// setWaitsAt stores the offset of the first tombstone that the last pass kept because of other
// replicas, or -1 if the pass kept none.
func (p *cleaningProgress) setWaitsAt(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waitsAt = offset
}

// due returns the time (Unix milliseconds) from which the log needs a pass for its tombstones. It
// is the earlier of two times: horizon, which the last pass returned, and one tombstone retention
// after all replicas reached the tombstone at waitsAt.
func (p *cleaningProgress) due(horizon int64, retention time.Duration) int64 {
	p.mu.Lock()
	waitsAt := p.mu.waitsAt
	p.mu.Unlock()
	if waitsAt < 0 {
		return horizon
	}
	since, ok := p.ForPass().Since(waitsAt)
	if !ok {
		return horizon
	}
	return min(horizon, since+retention.Milliseconds())
}
