package sim

import (
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/replica"
)

// look compares every living broker's logs with what is known, while nothing runs: what is new in
// them, or all of it.
func (o *oracle) look(whole bool) {
	for _, t := range o.mu.truths {
		recorded := o.w.meta.recorded(t.name)
		o.mu.Lock()
		highest, holder := int64(0), int32(-1)
		for _, b := range o.w.brokers {
			l := b.life.Load()
			if l == nil || l.dead.Load() {
				continue
			}
			for _, state := range l.set.States() {
				if state.ID != t.partitionID() || state.Log == nil {
					continue
				}
				t.begunAnew(l, state.Log)
				if hw := o.lookAt(t, l, state, whole); hw > highest {
					highest, holder = hw, b.id
				}
			}
		}
		o.lookAtMembers(t, recorded, highest, holder)
		o.mu.Unlock()
	}
}

// inSync tells whether a broker's present incarnation is in sync on record.
func inSync(recorded placement.Partition, l *life) bool {
	return slices.ContainsFunc(recorded.ISR,
		func(m placement.InSyncReplica) bool {
			return m.Broker == l.id &&
				m.Epoch == l.epoch.Load()
		})
}

// begunAnew takes in that a follower has given its log up, as it says in its log; that it was not
// in sync then the witness has seen. Nobody cuts a part off below its high watermark.
func (t *truth) begunAnew(l *life, log *logstore.Log) {
	if until := t.seen[l]; l.witness.begunAnew(t.name) && until != nil && until.log == log {
		until.to = min(until.to, max(log.HighWatermark(), log.LogStart()))
	}
}

// lookAt compares one log, and returns its high watermark, 0 if it is not one to go by.
func (o *oracle) lookAt(t *truth, l *life, state replica.State, whole bool) int64 {
	log := state.Log
	if log.LeaderEpoch() < t.excused {
		return 0 // it has what nobody else has any more, and will learn it
	}
	hw, end := log.HighWatermark(), log.LogEnd()
	until := t.seen[l]
	if until == nil || until.log != log {
		until = &seenUntil{log: log, to: log.LogStart()}
		t.seen[l] = until
	}
	if hw < until.to {
		o.w.fail("%s: the high watermark of broker %d went from %d back to %d", t.name, l.id,
			until.to, hw)
		return 0
	}
	from := max(until.to, log.LogStart())
	if whole {
		from = log.LogStart()
	}
	o.lookAtStart(t, l, log)
	facts, err := read(log, from, end)
	if errors.Is(err, logstore.ErrClosed) {
		return 0
	}
	if err != nil {
		o.w.fail("%s: broker %d cannot read [%d, %d): %v", t.name, l.id, from, end, err)
		return 0
	}
	for _, f := range facts {
		at := [2]int64{f.offset, int64(f.epoch)}
		if had, ok := t.written[at]; ok && had != f {
			o.w.fail("%s: broker %d has %+v, another had %+v", t.name, l.id, f, had)
			return 0
		}
		t.written[at] = f
		t.appended[[2]int64{f.producer, int64(f.sequence)}] = true
		if f.offset < hw {
			o.settle(t, f, l.id, "has")
		}
	}
	until.to = hw
	if whole {
		o.complete(t, l, log.LogStart(), hw, facts)
	}
	o.lookAtLeader(t, l, state, hw)
	return hw
}

// complete fails when something is missing in a log below its high watermark.
func (o *oracle) complete(t *truth, l *life, start, hw int64, facts []fact) {
	if t.settings.Delete {
		start = max(start, t.deletedTo)
	} else {
		start = 0
	}
	if !t.settings.Compact {
		has := make(map[int64]bool, len(facts))
		for _, f := range facts {
			has[f.offset] = true
		}
		for offset, f := range t.settled {
			if offset < hw && offset >= start && !has[offset] {
				o.w.fail("%s: broker %d, whose log is [%d, %d), has lost %+v", t.name, l.id, start,
					hw, f)
			}
		}
		return
	}
	// A key whose latest record is above may have none here: a replica that catches up gets the log
	// as it is cleaned by now.
	latest, want := t.latestOf(facts, hw), map[string]fact{}
	for offset, f := range t.settled {
		if had, ok := want[f.key]; t.counts(f) && (!ok || had.offset < offset) {
			want[f.key] = f
		}
	}
	for key, f := range want {
		got, ok := latest[key]
		switch {
		case f.offset >= hw, f.offset < start:
		case ok && got != f:
			o.w.fail("%s: of key %s broker %d has %+v below %d, the latest is %+v", t.name, key,
				l.id, got, hw, f)
		case !ok && !f.deleted:
			o.w.fail("%s: broker %d, whose log is [%d, %d), has lost %+v", t.name, l.id, start, hw,
				f)
		}
	}
	below := 0
	for offset := range t.settled {
		if offset < hw {
			below++
		}
	}
	t.count.cleaned = max(t.count.cleaned, below-len(facts))
}

// latestOf is the newest record of each key below an offset, but for those of transactions that
// were not committed.
func (t *truth) latestOf(facts []fact, below int64) map[string]fact {
	latest := map[string]fact{}
	for _, f := range facts {
		if f.offset < below && t.counts(f) {
			latest[f.key] = f
		}
	}
	return latest
}

// lookAtLeader checks who leads, and what it tells clients.
func (o *oracle) lookAtLeader(t *truth, l *life, state replica.State, hw int64) {
	if !state.Leader {
		return
	}
	if want, ok := t.leaders[state.LeaderEpoch]; !ok ||
		want != [2]int64{int64(l.id), l.epoch.Load()} {
		o.w.fail("%s: broker %d leads in epoch %d in incarnation %d; elected was %v", t.name, l.id,
			state.LeaderEpoch, l.epoch.Load(), want)
	}
	o.lookAtGone(t, l, state)
	if l.set.CheckEndOffset(t.partitionID()) != nil {
		return
	}
	stable := state.Log.LastStable()
	for epoch, told := range t.told {
		if epoch < state.LeaderEpoch && told.end > hw || epoch <= state.LeaderEpoch &&
			told.stable > stable {
			o.w.fail(
				"%s: broker %d tells in epoch %d that the log ends at %d, and is decided up to %d; in epoch %d it was %+v",
				t.name,
				l.id,
				state.LeaderEpoch,
				hw,
				stable,
				epoch,
				told,
			)
		}
	}
	if stable == state.Log.LogStart() {
		// where a log begins is no decision about what lay below: another one may still have it
		stable = 0
	}
	before := t.told[state.LeaderEpoch]
	t.told[state.LeaderEpoch] = ends{max(before.end, hw), max(before.stable, stable)}
}

// lookAtMembers fails when a living in-sync replica lacks something below a high watermark: it
// could be elected.
func (o *oracle) lookAtMembers(t *truth, recorded placement.Partition, highest int64,
	holder int32) {
	for _, m := range recorded.ISR {
		l := o.w.brokers[m.Broker].life.Load()
		if l == nil || l.epoch.Load() != m.Epoch {
			continue
		}
		log := l.store.Log(t.partitionID())
		if log == nil {
			if highest > 0 && l.image.Load() != nil {
				o.w.fail(
					"%s: broker %d is in sync and has no log; the high watermark of broker %d is %d",
					t.name,
					m.Broker,
					holder,
					highest,
				)
			}
			continue
		}
		end := log.LogEnd()
		if t.settings.Fsync {
			end = log.SafeEnd()
		}
		if log.LeaderEpoch() >= t.excused && end < highest {
			o.w.fail(
				"%s: broker %d is in sync with %d records; the high watermark of broker %d is %d",
				t.name,
				m.Broker,
				end,
				holder,
				highest,
			)
		}
	}
}
