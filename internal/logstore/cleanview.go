package logstore

import (
	"math"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Why bytes above the bound cannot be cleaned now: label values of heartwood_log_blocked_bytes.
const (
	blockedActive       = "active_segment"
	blockedMinLag       = "min_lag"
	blockedUnreplicated = "unreplicated"
	blockedTransaction  = "open_transaction"
)

// cleanView is what the cleaner needs to know of a log at one moment; release it.
//
// Invariant: every segment of Segments ends at or below Bound; FirstDirty <= Bound.
type cleanView struct {
	Segments   []*segment.Segment // [log start, Bound), ascending, never the active one
	FirstDirty int64
	Bound      int64 // rounded down to a segment's base (reference I2)
	CleanBytes int64 // below FirstDirty
	DirtyBytes int64 // [FirstDirty, Bound)
	// bytes above Bound by reason: active_segment, min_lag, open_transaction, unreplicated
	Blocked map[string]int64
	// when the oldest of the dirty segments was first written; zero if there is none
	OldestDirty time.Time
	// the active ones: their last batches stay, empty if need be (I25)
	Producers map[int64]clean.Producer
	Lineage   int64 // of the log when the view was taken: see Log.lineage
	LogStart  int64
	Aborted   []segment.AbortedTxn // that begin below Bound and end above it
	Release   func()
}

// cleanView takes a view of the log for the cleaner. A first dirty offset that lies outside the log
// is reset, for good.
func (l *Log) cleanView(now time.Time) cleanView {
	l.resetFirstDirty()
	// before the list: a truncation in between makes the view old, and not look new
	lineage := l.lineage.Load()
	list, facts := l.cleanFacts()
	if list == nil {
		return cleanView{Release: func() {}}
	}
	// what is above the bound is not held: a truncation there would wait for the pass
	defer list.release()
	view := viewOf(list.handles, facts, l.Settings(), now)
	view.Producers = l.cleanProducers()
	view.Lineage, view.LogStart, view.Release = lineage, facts.logStart,
		hold(list.handles, view.Segments)
	if err := view.findAborted(list.handles); err != nil {
		// Without them an aborted record could pass for a committed one: nothing is cleaned. The
		// segment's reader will meet the same fault.
		l.env.logger.Warn("read aborted transactions", "partition", l.id, "error", err)
		view.Segments = nil
	}
	return view
}

// hold keeps segments of a list, which the caller holds, until the release that it returns.
func hold(handles []*handle, segments []*segment.Segment) (release func()) {
	var held []*handle
	for _, h := range handles {
		if len(held) < len(segments) && h.Segment == segments[len(held)] {
			h.acquire()
			held = append(held, h)
		}
	}
	return func() {
		for _, h := range held {
			h.release()
		}
	}
}

// findAborted takes the aborted transactions that the bound cuts in two.
func (v *cleanView) findAborted(handles []*handle) error {
	for _, h := range handles {
		if h.Base() < v.Bound {
			continue
		}
		complete, err := h.Aborted(v.Bound, v.Bound,
			func(a segment.AbortedTxn) { v.Aborted = append(v.Aborted, a) })
		if err != nil || complete {
			return err
		}
	}
	return nil
}

// cleanFacts is what a view is computed from, besides the segments.
type cleanFacts struct {
	logStart   int64
	lastStable int64 // nothing above is cleaned: it may yet be undone (I2)
	replicated int64 // the high watermark: what lies between is held back by a transaction
	durable    int64 // Log.durable: nothing above is cleaned
	firstDirty int64 // within [logStart, logEnd], see firstDirtyWithin
	horizon    int64 // ms, horizonNone or horizonUnknown
}

// cleanFacts takes the list, which the caller releases, and the facts. It needs no lock, for a
// scrape of the metrics must not wait for an append that waits for the disk.
//
// The list comes first. A roll lowers durable before it publishes the list in which the rolled
// segment may be looked at, so the durable that is read here does not count a segment of this list
// as sealed that is not. What changes behind that moment makes the view older, not wrong;
// replaceSegments checks all of it again under the lock.
func (l *Log) cleanFacts() (*segmentList, cleanFacts) {
	list := l.acquire()
	logStart := l.logStart.Load()
	return list, cleanFacts{
		logStart:   logStart,
		lastStable: l.LastStable(),
		replicated: l.HighWatermark(),
		durable:    l.durable.Load(),
		firstDirty: firstDirtyWithin(l.firstDirty.Load(), logStart, l.logEnd.Load()),
		horizon:    l.tombstonesDue(),
	}
}

// settleDurableLocked follows a change of unsealed or checkpointed: durable = min(checkpointed,
// base of unsealed[0]). It is stored in an atomic because cleanFacts reads it without Log.mu.
func (l *Log) settleDurableLocked() {
	durable := l.mu.checkpointed
	if len(l.mu.unsealed) > 0 {
		durable = min(durable, l.mu.unsealed[0].segment.Base())
	}
	l.durable.Store(durable)
}

// firstDirtyWithin returns the first dirty offset, or the log start if it lies outside the log
// (reference I3).
func firstDirtyWithin(firstDirty, logStart, logEnd int64) int64 {
	if firstDirty < logStart || firstDirty > logEnd {
		return logStart
	}
	return firstDirty
}

// resetFirstDirty makes the reset of firstDirtyWithin lasting, at once, also when the log is not
// cleaned then.
func (l *Log) resetFirstDirty() {
	was := l.firstDirty.Load()
	within := firstDirtyWithin(was, l.logStart.Load(), l.logEnd.Load())
	if within == was {
		return
	}
	l.env.logger.Info("first dirty offset reset", "partition", l.id, "was", was, "is", within)
	if err := l.setFirstDirty(within); err != nil {
		l.env.logger.Warn("save the first dirty offset", "partition", l.id, "error", err)
	}
}

// What stands for a horizon where there is none to tell.
const (
	horizonUnknown = 0             // no pass was done, as far as anybody remembers
	horizonNone    = math.MaxInt64 // the last pass left no tombstone
)

// setCleanedIn records what a pass has reached: how far the log is clean, up to where its
// tombstones are lonely, and when the earliest of them may go. The horizon is stored first, for the
// same reason for which writeCheckpoints writes it first. If the log was truncated since the
// lineage of the pass, it fails with errSegmentsChanged and records nothing.
func (l *Log) setCleanedIn(lineage int64, reached clean.Stats) error {
	ms := int64(horizonNone)
	if !reached.NextPass.IsZero() {
		ms = reached.NextPass.UnixMilli()
	}
	l.mu.Lock() // a truncation changes lineage and first dirty offset under it
	if l.lineage.Load() != lineage {
		defer l.mu.Unlock()
		return errSegmentsChanged
	}
	l.agreement.passed(reached.AwaitsReplicasAt)
	l.horizon.Store(ms)
	l.lonelyTo.Store(reached.TombstoneCleanOffset)
	l.firstDirty.Store(reached.CleanedTo)
	l.mu.Unlock()
	return l.env.saveFirstDirty()
}

// setFirstDirty records how far the log is clean; it goes to cleaner-offset-checkpoint. An error is
// that of writing it: in memory the offset counts, and after a crash a pass is repeated, which
// changes nothing (I38).
func (l *Log) setFirstDirty(offset int64) error {
	l.firstDirty.Store(offset)
	return l.env.saveFirstDirty()
}

// viewOf computes a view: which segments may be cleaned, and why the others may not. The view does
// not hold the segments: the caller keeps the list they are of.
//
// Segments are taken whole. The bound is the base of the first one that is blocked (I2), and all
// behind it count as blocked for the same reason: what lies above a blocked segment must not
// supersede anything below it. A segment in which firstDirty lies counts as dirty as a whole, as in
// Kafka's ratio (I4).
func viewOf(handles []*handle, facts cleanFacts, settings topicconfig.Settings,
	now time.Time) cleanView {
	view := cleanView{Blocked: map[string]int64{}}
	blocked := ""
	for i, h := range handles {
		last := i == len(handles)-1
		if !last && handles[i+1].Base() <= facts.logStart {
			continue // retention will take it
		}
		dirty := last || handles[i+1].Base() > facts.firstDirty
		if blocked == "" {
			blocked = blockedBy(handles, i, dirty, facts, settings, now)
			// where the first blocked segment begins; there is one, the active
			view.Bound = h.Base()
		}
		switch {
		case blocked != "":
			view.Blocked[reasonOf(blocked, last)] += h.SizeBytes()
			continue
		case dirty:
			view.DirtyBytes += h.SizeBytes()
			if written := h.firstWritten(); h.SizeBytes() > 0 &&
				(view.OldestDirty.IsZero() || written.Before(view.OldestDirty)) {
				view.OldestDirty = written
			}
		default:
			view.CleanBytes += h.SizeBytes()
		}
		view.Segments = append(view.Segments, h.Segment)
	}
	view.FirstDirty = min(facts.firstDirty, view.Bound)
	return view
}

// blockedBy tells why segment i cannot be cleaned; "" if it can. The lag holds back dirty segments
// only: one that was cleaned before was old enough then, and a MinLag that was raised since must
// not move the bound below firstDirty.
func blockedBy(handles []*handle, i int, dirty bool, facts cleanFacts,
	settings topicconfig.Settings, now time.Time) string {
	if i == len(handles)-1 {
		return blockedActive
	}
	end := handles[i+1].Base()
	lag := settings.MinLag
	switch {
	case end > facts.replicated:
		return blockedUnreplicated
	case end > facts.lastStable:
		return blockedTransaction
	case end > facts.durable:
		return blockedActive // rolled a moment ago, and not sealed yet
	case dirty && lag > 0 && handles[i].newest() > now.Add(-lag).UnixMilli():
		return blockedMinLag
	}
	return ""
}

// reasonOf tells under which reason a segment above the bound counts: the active one always counts
// as that.
func reasonOf(blocked string, active bool) string {
	if active {
		return blockedActive
	}
	return blocked
}

// firstWritten is when the segment got its first batch, by that batch's timestamp; by the file's if
// it has none, or one that lies behind that: a producer whose clock is ahead must not put off what
// maxLag promises.
func (h *handle) firstWritten() time.Time {
	modified := h.ModTime()
	if ms, ok := h.FirstTimestamp(); ok && ms > 0 && ms < modified.UnixMilli() {
		return time.UnixMilli(ms)
	}
	return modified
}
