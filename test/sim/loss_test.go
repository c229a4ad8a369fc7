package sim

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/placement"
)

// flushSlack is the time in which a flush is due after its interval: observations are up to 100 ms
// old.
const flushSlack = 300 * time.Millisecond

// loss is an accepted loss of records by an election.
type loss struct {
	epoch int32 // of the new leader
	// from is the log end of the new leader: all records from there on that were written in earlier
	// epochs are lost.
	from int64
	// known is set if from is the log end of an in-sync replica. Otherwise any record may be lost.
	known bool
}

// mayLack reports whether a record below an offset may be lost.
func (t *partitionModel) mayLack(offset int64) bool {
	return slices.ContainsFunc(t.losses, func(l loss) bool { return l.from < offset })
}

// isLost reports whether a record is lost for all logs of a leader epoch.
func (t *partitionModel) isLost(f logRecord, logEpoch int32) bool {
	return slices.ContainsFunc(t.losses, func(l loss) bool {
		return l.known && l.epoch <= logEpoch && f.epoch < l.epoch && f.offset >= l.from
	})
}

func (o *oracle) mayLack(name string, offset int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).mayLack(offset)
}

// checkContinues fails if a broker serves a consumer above an offset from which records are lost,
// although the consumer has read lost records: their offsets have other records now.
func (o *oracle) checkContinues(l *liveBroker, name string, offset int64, epoch int32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	log := l.store.Log(t.partitionID())
	if log == nil || epoch < 0 {
		return
	}
	if t.isLost(logRecord{offset: offset - 1, epoch: epoch}, log.LeaderEpoch()) {
		o.w.fail("%s: broker %d serves a consumer that has read up to %d, epoch %d, which is lost: %+v",
			name, l.id, offset, epoch, t.losses)
	}
}

// observation is the log end of a broker at one moment.
type observation struct {
	moment time.Time
	end    int64
	epoch  int32 // of the record before end
}

// observe notes the log end of a broker.
func (t *partitionModel) observe(l *liveBroker, log *logstore.Log) {
	seen := t.observed[l]
	now := observation{time.Now(), log.LogEnd(), log.EpochAt(log.LogEnd() - 1)}
	if n := len(seen); n == 0 || seen[n-1].end != now.end || seen[n-1].epoch != now.epoch {
		t.observed[l] = append(seen, now)
	}
}

// synced returns the offset below which a process must have synced a topic's records, because the
// interval of the flush has passed since it had them. It is 0 if that is unknown.
func (o *oracle) synced(t *partitionModel, l *liveBroker) int64 {
	log := l.store.Log(t.partitionID())
	if log == nil || log.Notes().Loss() != "" || l.watcher.hasReset(t.name) || l.errors.hasOccurred() {
		return 0
	}
	due := time.Now().Add(-o.w.profile.flushInterval - flushSlack)
	for _, seen := range slices.Backward(t.observed[l]) {
		if !seen.moment.After(due) && seen.end <= log.LogEnd() &&
			log.EpochAt(seen.end-1) == seen.epoch { // otherwise the log was truncated since
			return seen.end
		}
	}
	return 0
}

// syncedByTopic returns what a process that ends now has synced, by topic.
func (o *oracle) syncedByTopic(l *liveBroker) map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	synced := map[string]int64{}
	for _, t := range o.mu.models {
		synced[t.name] = o.synced(t, l)
	}
	return synced
}

// syncedSince returns the offset below which the broker must have kept the records that it had in a
// broker epoch. It is 0 if that is unknown.
func (b *broker) syncedSince(epoch int64, topic string) int64 {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	for _, e := range b.exits {
		if e.epoch != epoch {
			continue
		}
		if e.lostAll || e.graceful {
			return 0
		}
		return e.synced[topic]
	}
	return 0
}

// checkBound fails if the elected broker has lost records that it must have synced before the power
// was cut.
func (o *oracle) checkBound(t *partitionModel, elected *broker, own placement.InSyncReplica,
	from int64) {
	if elected.lostAllSince(own.Epoch) {
		return
	}
	if synced := elected.syncedSince(own.Epoch, t.name); from < synced {
		o.w.fail("%s: broker %d has lost records from %d on; it had synced all below %d", t.name,
			elected.id, from, synced)
	}
}

// lostAllSince reports whether the broker has lost synced records since a broker epoch.
func (b *broker) lostAllSince(epoch int64) bool {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.ContainsFunc(b.exits, func(e exit) bool { return e.epoch >= epoch && e.lostAll })
}

// checkPreference fails if the elected broker has lost unsynced records, although an in-sync
// replica could be elected whose machine has run on (ADR 0351).
func (o *oracle) checkPreference(t *partitionModel, elected int32, before placement.Partition) {
	if o.w.meta.acceptLoss.Load() || t.settings.UncleanElection || o.w.parent != nil {
		return
	}
	brokers := o.w.meta.registered()
	for _, m := range before.ISR {
		b := brokers[m.Broker]
		if m.Broker == elected || m.LostLog() || b.Directory != m.Directory || b.Leaving {
			continue
		}
		if b.Liveness == placement.Up && o.w.brokers[m.Broker].wasOnlyKilled(m.Epoch) {
			o.w.fail("%s: broker %d is elected without its unsynced records, and not broker %d, which "+
				"was only killed", t.name, elected, m.Broker)
		}
	}
}

// wasOnlyKilled reports whether the broker runs, and has lost nothing since a broker epoch of which
// it has recorded the boot of its machine.
func (b *broker) wasOnlyKilled(epoch int64) bool {
	l := b.live.Load()
	if l == nil || b.lostSince(epoch, false) {
		return false
	}
	first := logstore.DirectoryFiles{Store: l.store}.BootEpoch()
	return first > 0 && first <= epoch
}

// electedBefore processes an unclean election whose leader has ended again before the file of the
// parent process was synced: the simulation then sees all changes as one. The other members may
// have left the ISR before the election.
func (o *oracle) electedBefore(t *partitionModel, before, next placement.Partition) {
	if o.w.parent == nil || next.UnprovenEpoch <= before.UnprovenEpoch || len(next.ISR) != 1 {
		return
	}
	next.Leader, next.LeaderEpoch = next.ISR[0].Broker, next.UnprovenEpoch
	before.ISR = slices.DeleteFunc(slices.Clone(before.ISR),
		func(m placement.InSyncReplica) bool { return m.Broker != next.Leader })
	t.count.unclean++
	o.uncleanElection(t, before, next)
}

// allDestroyed reports whether all in-sync replicas have lost their disks.
func (w *world) allDestroyed(isr []placement.InSyncReplica) bool {
	return !slices.ContainsFunc(isr, func(m placement.InSyncReplica) bool {
		return !w.brokers[m.Broker].lostAllSince(m.Epoch)
	})
}

// mustAwaitConsent reports whether a partition without a leader waits for a person: an in-sync
// replica has lost synced records, or does not return.
func (w *world) mustAwaitConsent(p placement.Partition) bool {
	return slices.ContainsFunc(p.ISR, func(m placement.InSyncReplica) bool {
		return m.LostLog() || w.scale.lost[m.Broker] || !w.isMember(w.brokers[m.Broker]) ||
			w.brokers[m.Broker].lostAllSince(m.Epoch)
	})
}
