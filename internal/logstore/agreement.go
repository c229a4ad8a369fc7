package logstore

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
)

// agreement is what a log knows of all replicas of its partition: below which offset none of them
// holds anything older than its tombstones, and since when that is known (X1, X3).
//
// It is no more than a bound on what a pass may remove, so who reads it may be late: what was
// agreed on stays true.
type agreement struct {
	// told is what SetReplicasLonely was told last: nobody before the first time, alone for a log
	// without other replicas.
	told atomic.Int64
	mu   struct {
		sync.Mutex // a leaf
		steps      clean.CleaningProgress
		// waitsAt is clean.Stats.WaitsAt of the last pass: -1 if nothing waits, or if that is not
		// known, as behind a restart.
		waitsAt int64
	}
}

const (
	nobody = -1
	alone  = math.MaxInt64
)

// begin makes what was saved the agreement of a log that was opened, and that ends there.
func (a *agreement) begin(steps clean.CleaningProgress, end int64) {
	a.told.Store(nobody)
	a.mu.steps, a.mu.waitsAt = steps.Truncate(end), -1
}

// tell takes in what all replicas are known to agree on by now. Own is how far this one does: all
// that lasts of a time in which it was the only replica, when others are added, which copy what it
// has then.
func (a *agreement) tell(offset, own int64, now time.Time, retention time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if offset != alone {
		a.mu.steps = withoutAlone(a.mu.steps, own)
	}
	a.mu.steps = a.mu.steps.Add(offset, now, retention)
	a.told.Store(offset)
}

// withoutAlone is what lasts of the steps when a log gets other replicas.
func withoutAlone(steps clean.CleaningProgress, own int64) clean.CleaningProgress {
	if n := len(steps); n > 0 && steps[n-1].Below == alone {
		return steps.Truncate(own)
	}
	return steps
}

// agreed is what a pass may go by: nothing above what was told last, for a leader of now that has
// not heard of all replicas bounds it.
func (a *agreement) agreed() clean.CleaningProgress {
	told := a.told.Load()
	if told == nobody {
		return clean.SingleReplica()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.steps.Truncate(told)
}

// cut forgets what was agreed on from an offset on: other records may come there, and the leader is
// asked anew.
func (a *agreement) cut(offset int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.steps = a.mu.steps.Truncate(offset)
	if a.told.Load() != nobody {
		a.told.Store(0)
	}
}

// saved is what of it goes into the checkpoint.
func (a *agreement) saved(own int64) clean.CleaningProgress {
	a.mu.Lock()
	defer a.mu.Unlock()
	return withoutAlone(a.mu.steps, own)
}

// passed notes what the last pass has left waiting for other replicas.
func (a *agreement) passed(waitsAt int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.waitsAt = waitsAt
}

// due is when the log wants a pass for its tombstones (ms): at the horizon that the last pass has
// named, or a retention after the others have agreed on what waited for them.
func (a *agreement) due(horizon int64, retention time.Duration) int64 {
	a.mu.Lock()
	waitsAt := a.mu.waitsAt
	a.mu.Unlock()
	if waitsAt < 0 {
		return horizon
	}
	since, ok := a.agreed().Since(waitsAt)
	if !ok {
		return horizon
	}
	return min(horizon, since+retention.Milliseconds())
}

// SetReplicasLonely is told the lowest LonelyTo of all replicas of the partition, in sync or not;
// math.MaxInt64 if this is the only one. Tombstones and transaction markers from there on stay, and
// those below until a retention after this was told first: one that is removed here while another
// replica still holds what it hides would bring that back, when the other comes to lead or a
// consumer goes on from there to here (X1, X3). It may fall, when a replica is added or a leader
// has not heard of all. Until it is called a log counts as the only replica, and has always been.
func (l *Log) SetReplicasLonely(offset int64) {
	// most of the time it is the same: this is said with each fetch of each follower
	if l.agreement.told.Load() != offset {
		l.agreement.tell(offset, l.LonelyTo(), time.Now(), l.Settings().TombstoneRetention)
	}
}

// ReplicasLonely is what SetReplicasLonely was told last.
func (l *Log) ReplicasLonely() int64 {
	if told := l.agreement.told.Load(); told != nobody {
		return told
	}
	return alone
}

// replicasLonelyTo is ReplicasLonely for people: of a log that is the only replica its own.
func (l *Log) replicasLonelyTo() int64 {
	if told := l.ReplicasLonely(); told != alone {
		return told
	}
	return l.LonelyTo()
}

// LonelyTo is the offset below which every tombstone of this replica is lonely: the log holds
// nothing older of its key any more, neither a value nor garbage. At most where the log is clean
// to, and mostly less: what is dead may stay for the sake of I/O. What lies below the log start
// nobody can read.
func (l *Log) LonelyTo() int64 {
	return max(l.logStart.Load(), min(l.lonelyTo.Load(), l.firstDirty.Load()))
}

// tombstonesDue is when the log wants a pass for its tombstones (ms), horizonNone or
// horizonUnknown.
func (l *Log) tombstonesDue() int64 {
	return l.agreement.due(l.horizon.Load(), l.Settings().TombstoneRetention)
}
