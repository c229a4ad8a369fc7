package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// estimate is what is known of a log's garbage between passes. The zero value: nobody has looked
// yet.
type estimate struct {
	looked bool
	// Of the log when it was made.
	lineage, firstDirty int64
	dirtyBytes          int64

	known bool // false: there is no way to know without a pass
	exact bool // counted by a pass, as long as nothing is dirty
	bytes int64
	error float64 // how far the share of garbage may be off, 0..1
}

// remeasureShare is by which share of the log, one in so many, its dirty section grows until the
// garbage is estimated again. So however often segments roll, the estimates of a log that grows
// read less of the sidecars than a pass would.
const remeasureShare = 32

// stale tells whether the log is not any more what it was when the estimate was made.
func (e estimate) stale(v cleanView) bool {
	grown := v.DirtyBytes - e.dirtyBytes
	return !e.looked || e.lineage != v.Lineage || e.firstDirty != v.FirstDirty || grown < 0 ||
		grown > 0 && (grown*remeasureShare > v.CleanBytes+v.DirtyBytes || e.exact)
}

// worth tells whether a pass over a dirty section would find enough to pay: more than the topic
// allows to stay. Where that is not known, it is done.
//
// Only a pass learns that a tombstone is the last of its key, and begins its retention. So a dirty
// section waits for one retention at most; if its keys are unique, the pass costs one reading of
// the sidecars.
func (e estimate) worth(v cleanView, s topicconfig.Settings, now time.Time) bool {
	if !e.known || e.lineage != v.Lineage || now.Sub(v.OldestDirty) >= s.TombstoneRetention {
		return true
	}
	share := float64(e.bytes) / float64(max(1, v.CleanBytes+v.DirtyBytes))
	return e.bytes > 0 && (share+e.error)*100 > float64(s.MaxGarbagePercent)
}

// measureOnce estimates the garbage of each log that has grown enough since it was last done.
func (c *Cleaner) measureOnce(now time.Time) {
	for _, log := range c.store.Logs() {
		seen := lookAt(log, now)
		if !seen.settings.Compact || seen.closed || !c.wantsMeasure(seen, now) {
			continue
		}
		found, err := c.measureTended(log)
		if errors.Is(err, errNotReady) || errors.Is(err, context.Canceled) {
			continue
		}
		if err != nil {
			log.env.logger.Debug("garbage cannot be estimated", "partition", log.id, "error", err)
		}
		c.mu.Lock()
		if state := c.stateLocked(log, now); state != nil && !state.running() {
			state.estimate = found
		}
		c.mu.Unlock()
		c.awake()
	}
}

// measureTended is measure, when it is its turn, and until the log is gone.
func (c *Cleaner) measureTended(log *Log) (estimate, error) {
	ctx, done := c.tending(log)
	defer done()
	if !c.lockMaker(ctx.Done()) {
		return estimate{}, ctx.Err()
	}
	defer c.unlockMaker()
	return c.measure(ctx, log)
}

// wantsMeasure tells whether a log's garbage is to be estimated.
func (c *Cleaner) wantsMeasure(seen look, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := c.stateLocked(seen.log, now)
	return state != nil && !state.running() && seen.view.CleanBytes+seen.view.DirtyBytes > 0 &&
		state.estimate.stale(seen.view)
}

// errNotReady is returned by measure while sidecars that will be there are not.
var errNotReady = errors.New("sidecars are not made yet")

// measure tells how much of a log is garbage: exactly, by what the last pass wrote down, if nothing
// is dirty; else by a sample of the keys. Of a log whose records are too small for sidecars it
// tells nothing: making them for an estimate would cost what a pass does.
func (c *Cleaner) measure(ctx context.Context, log *Log) (estimate, error) {
	view := log.cleanView(time.Now())
	defer view.Release()
	found := estimate{looked: true, lineage: view.Lineage, firstDirty: view.FirstDirty,
		dirtyBytes: view.DirtyBytes}
	if view.DirtyBytes == 0 {
		if bytes, ok := log.countedGarbage(view); ok {
			found.known, found.exact, found.bytes = true, true, bytes
			return found, nil
		}
	}
	handles, err := log.sampled(view)
	if err != nil || handles == nil {
		return found, err
	}
	sample, err := clean.EstimateGarbage(ctx, c.measureJob(log, view, handles))
	if err != nil {
		return found, fmt.Errorf("estimate garbage: %w", err)
	}
	found.known, found.bytes, found.error = true, sample.GarbageBytes, sample.Error
	return found, nil
}

// sampled returns the segments of a view that have a sidecar, which are held by the view; nil if
// one of them will have none.
func (l *Log) sampled(view cleanView) (map[*segment.Segment]*handle, error) {
	list := l.acquire()
	if list == nil {
		return nil, ErrClosed
	}
	defer list.release()
	handles := map[*segment.Segment]*handle{}
	for _, s := range view.Segments {
		at := slices.IndexFunc(list.handles, func(h *handle) bool { return h.Segment == s })
		if at < 0 {
			return nil, errNotReady // replaced meanwhile
		}
		note := list.handles[at].noted()
		switch {
		case note == nil || note.digest == 0 && note.retry.IsZero() && keepsSidecar(note.logBytes, note.records):
			return nil, errNotReady
		case note.digest == 0: // too small, or damaged
			return nil, nil
		}
		handles[s] = list.handles[at]
	}
	return handles, nil
}

// measureJob is what an estimate needs to know.
func (c *Cleaner) measureJob(log *Log, view cleanView,
	handles map[*segment.Segment]*handle) clean.Job {
	job := clean.Job{
		LogStart: view.LogStart, FirstDirty: view.FirstDirty, Bound: view.Bound,
		AbortedAcrossBound: view.Aborted, Producers: view.Producers,
		Limits: clean.Limits{MemoryBytes: c.options().makerMemoryBytes()},
		Env: clean.Env{
			OpenSidecar: func(_ context.Context, s *segment.Segment,
				_ clean.SidecarOptions) (*keys.Reader,
				error) {
				return log.openSidecar(handles[s], false)
			},
			Throttle: func(ctx context.Context, n int) error {
				log.sidecars.readBytes.Add(int64(n))
				return c.spend(ctx, n)
			},
		},
	}
	for _, s := range view.Segments {
		job.Sources = append(job.Sources, clean.Source{
			Segment: s, NoAbortedTxns: handles[s].AbortedCount() == 0,
		})
	}
	return job
}

// countedGarbage adds up what the .dead files of a log say, all of which is clean. ok is false if
// one of them is not what the last pass wrote: they are written before the first dirty offset
// moves, so a segment that has none has no garbage.
func (l *Log) countedGarbage(view cleanView) (bytes int64, ok bool) {
	for _, s := range view.Segments {
		content := l.loadDead(s)
		if content == nil {
			continue
		}
		d, err := clean.DecodeDeadFile(content)
		if err != nil || d.Base != s.Base() || d.LogBytes != s.SizeBytes() ||
			d.ComputedThrough > view.Bound ||
			d.Lineage != l.lineageOf(d.ComputedThrough) {
			return 0, false
		}
		bytes += d.DeadBytes
	}
	return bytes, true
}

// lineageOf is clean.Job.Lineage.
func (l *Log) lineageOf(below int64) uint64 { return uint64(l.EpochAt(below - 1)) }
