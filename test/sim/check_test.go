package sim

import (
	"errors"
	"slices"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/placement"
	"heartwood.dev/heartwood/internal/replica"
)

// check verifies the logs of all live brokers while no other goroutine runs. It reads only new
// records, or all records if whole is set.
func (o *oracle) check(whole bool) {
	o.w.inspecting.Store(true)
	defer o.w.inspecting.Store(false)
	for _, t := range o.mu.models {
		recorded := o.w.meta.recorded(t.name)
		o.mu.Lock()
		highest, highestOn := int64(0), int32(-1)
		for _, b := range o.w.brokers {
			l := b.live.Load()
			if l == nil || l.dead.Load() {
				continue
			}
			for _, state := range l.set.States() {
				if state.ID != t.partitionID() || state.Log == nil {
					continue
				}
				t.applyReset(l, state.Log)
				if hw := o.checkLog(t, l, state, whole); hw > highest {
					highest, highestOn = hw, b.id
				}
			}
		}
		o.checkISR(t, recorded, highest, highestOn)
		o.mu.Unlock()
	}
}

// inSync reports whether a broker's current epoch is in the recorded ISR.
func inSync(recorded placement.Partition, l *liveBroker) bool {
	return slices.ContainsFunc(recorded.ISR,
		func(m placement.InSyncReplica) bool {
			return m.Broker == l.id &&
				m.Epoch == l.epoch.Load()
		})
}

// applyReset processes a follower's report that it has discarded its log. The log must then be
// verified again from its present high watermark on. The logWatcher checks that the follower was
// not in sync. Other truncations need no such processing, because they never go below the high
// watermark.
func (t *partitionModel) applyReset(l *liveBroker, log *logstore.Log) {
	if !l.watcher.takeReset(t.name) {
		return
	}
	t.count.discarded++
	delete(t.observed, l) // what it copies now is not synced yet
	if until := t.verified[l]; until != nil && until.log == log {
		until.to = min(until.to, max(log.HighWatermark(), log.LogStart()))
	}
}

// checkLog verifies one log and returns its high watermark. It returns 0 if the log cannot be
// verified.
func (o *oracle) checkLog(t *partitionModel, l *liveBroker, state replica.State, whole bool) int64 {
	log := state.Log
	if log.Notes().Loss() != "" {
		return 0 // the broker neither leads nor follows with this log
	}
	if log.LeaderEpoch() < t.lossEpoch {
		return 0 // the log may contain records that are lost on other brokers, and will truncate them
	}
	hw, end := log.HighWatermark(), log.LogEnd()
	until := t.verified[l]
	if until == nil || until.log != log {
		until = &verifiedUpTo{log: log, to: log.LogStart()}
		t.verified[l] = until
	}
	if hw < until.to {
		o.w.fail("%s: the high watermark of broker %d decreased from %d to %d", t.name, l.id,
			until.to, hw)
		return 0
	}
	from := max(until.to, log.LogStart())
	if whole {
		from = log.LogStart()
	}
	o.checkLogStart(t, l, log)
	records, err := read(log, from, end)
	if errors.Is(err, logstore.ErrClosed) || err != nil && l.isFlipped(t.name) {
		return 0
	}
	if err != nil {
		o.w.fail("%s: broker %d failed to read [%d, %d): %v", t.name, l.id, from, end, err)
		return 0
	}
	t.observe(l, log)
	for _, f := range records {
		if t.isLost(f, log.LeaderEpoch()) {
			o.w.fail("%s: broker %d, whose log is in epoch %d, has the lost record %+v: %+v", t.name, l.id,
				log.LeaderEpoch(), f, t.losses)
			return 0
		}
		key := [2]int64{f.offset, int64(f.epoch)}
		if had, ok := t.written[key]; ok && had != f {
			o.w.fail("%s: broker %d has %+v, another broker had %+v", t.name, l.id, f, had)
			return 0
		}
		t.written[key] = f
		t.appended[[2]int64{f.producer, int64(f.sequence)}] = true
		if f.offset < hw {
			o.commit(t, f, l.id, "has")
		}
	}
	until.to = hw
	if whole {
		o.checkComplete(t, l, log.LogStart(), hw, records)
		o.checkLastRecord(t, l, state)
	}
	o.checkLeader(t, l, state, hw)
	return hw
}

// checkComplete fails if a log lacks a record below its high watermark.
func (o *oracle) checkComplete(t *partitionModel, l *liveBroker, start, hw int64,
	records []logRecord) {
	if t.settings.Delete {
		start = max(start, t.deletedTo)
	} else {
		start = 0
	}
	if !t.settings.Compact {
		has := make(map[int64]bool, len(records))
		for _, f := range records {
			has[f.offset] = true
		}
		for offset, f := range t.committed {
			if offset < hw && offset >= start && !has[offset] {
				o.w.fail("%s: broker %d, whose log is [%d, %d), has lost %+v", t.name, l.id, start,
					hw, f)
			}
		}
		return
	}
	// If a key's latest record is at or above hw, the log may have no record of this key below hw. The
	// reason is that a replica that catches up copies a log that has been cleaned meanwhile, without
	// the superseded records.
	latest, want := t.latestOf(records, hw), map[string]logRecord{}
	for offset, f := range t.committed {
		if had, ok := want[f.key]; t.takesEffect(f) && (!ok || had.offset < offset) {
			want[f.key] = f
		}
	}
	for key, f := range want {
		got, ok := latest[key]
		switch {
		case f.offset >= hw, f.offset < start:
		case ok && got != f:
			o.w.fail("%s: key %s: broker %d has %+v below %d, the latest is %+v", t.name, key,
				l.id, got, hw, f)
		case !ok && !f.deleted:
			o.w.fail("%s: broker %d, whose log is [%d, %d), has lost %+v", t.name, l.id, start, hw,
				f)
		}
	}
	below := 0
	for offset := range t.committed {
		if offset < hw {
			below++
		}
	}
	t.count.cleaned = max(t.count.cleaned, below-len(records))
}

// latestOf returns each key's latest record below an offset. It ignores records of transactions
// that were not committed.
func (t *partitionModel) latestOf(records []logRecord, below int64) map[string]logRecord {
	latest := map[string]logRecord{}
	for _, f := range records {
		if f.offset < below && t.takesEffect(f) {
			latest[f.key] = f
		}
	}
	return latest
}

// checkLeader verifies that a broker that leads was elected in its leader epoch. It also verifies
// the offsets that the broker returns to clients.
func (o *oracle) checkLeader(t *partitionModel, l *liveBroker, state replica.State, hw int64) {
	if !state.Leader {
		return
	}
	if want, ok := t.leaders[state.LeaderEpoch]; !ok ||
		want != [2]int64{int64(l.id), l.epoch.Load()} {
		o.w.fail("%s: broker %d leads in epoch %d with broker epoch %d; the elected leader is %v",
			t.name, l.id,
			state.LeaderEpoch, l.epoch.Load(), want)
	}
	o.checkConfirmedDelete(t, l, state)
	if l.set.CheckEndOffset(t.partitionID()) != nil {
		return
	}
	stable := state.Log.LastStable()
	for epoch, reported := range t.reported {
		if epoch < state.LeaderEpoch && reported.end > hw || epoch <= state.LeaderEpoch &&
			reported.stable > stable {
			o.w.fail(
				"%s: broker %d in epoch %d: high watermark %d, last stable offset %d; in epoch %d: %+v",
				t.name,
				l.id,
				state.LeaderEpoch,
				hw,
				stable,
				epoch,
				reported,
			)
		}
	}
	before, reported := t.reported[state.LeaderEpoch]
	if start := state.Log.LogStart(); stable == start || reported && start > before.stable {
		// In this case, the last stable offset may have advanced only because records were deleted.
		// Another log can still contain an open transaction below it.
		stable = 0
	}
	t.reported[state.LeaderEpoch] = ends{max(before.end, hw), max(before.stable, stable)}
}

// checkISR fails if a live ISR member, which could be elected, lacks a record below any high
// watermark.
func (o *oracle) checkISR(t *partitionModel, recorded placement.Partition, highest int64,
	highestOn int32) {
	for _, m := range recorded.ISR {
		l := o.w.brokers[m.Broker].live.Load()
		if l == nil || l.epoch.Load() != m.Epoch || l.lost(t.topic) {
			continue
		}
		log := l.store.Log(t.partitionID())
		if log == nil {
			if highest > 0 && l.image.Load() != nil && !l.errors.hasOccurred() {
				o.w.fail(
					"%s: ISR member %d has no log; the high watermark of broker %d is %d",
					t.name,
					m.Broker,
					highestOn,
					highest,
				)
			}
			continue
		}
		end := log.LogEnd()
		if t.settings.Fsync {
			end = log.DurableEnd()
		}
		if log.LeaderEpoch() >= t.lossEpoch && end < highest {
			o.w.fail(
				"%s: ISR member %d has durable end %d; the high watermark of broker %d is %d",
				t.name,
				m.Broker,
				end,
				highestOn,
				highest,
			)
		}
	}
}
