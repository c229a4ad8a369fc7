package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// retentionInterval is the interval at which retention runs.
const retentionInterval = 2 * time.Second

// expiry is a topic's retention. The zero value means that no records expire.
type expiry struct {
	after     time.Duration // 0: records do not expire by time
	sizeBytes int64         // 0: records do not expire by size
}

// newExpiry chooses the retention of each topic at random. Records of the topic "synced" never
// expire.
func newExpiry(random *rand.Rand) map[string]expiry {
	all := map[string]expiry{}
	for _, topic := range []string{"plain", "compacted"} {
		switch random.IntN(6) {
		case 0:
			all[topic] = expiry{after: time.Duration(3+random.IntN(8)) * time.Second}
		case 1:
			all[topic] = expiry{sizeBytes: int64(6000 + random.IntN(10_000))}
		}
	}
	return all
}

func (e expiry) set(settings *topicconfig.Settings) {
	if e.after > 0 {
		settings.Delete, settings.RetentionTime = true, e.after
	}
	if e.sizeBytes > 0 {
		settings.Delete, settings.RetentionBytes = true, e.sizeBytes
	}
}

// expires reports whether retention deletes records of the topic.
func (t *topic) expires() bool {
	return t.settings.Delete && (t.settings.RetentionTime >= 0 || t.settings.RetentionBytes >= 0)
}

// deletion is a confirmed DeleteRecords request: the new log start offset, and the leader epoch in
// the response.
type deletion struct {
	to    int64
	epoch int32
}

// deleteRecords deletes a topic's records below a random offset, like Kafka's DeleteRecords. Once
// the deletion is confirmed, no broker must return the records again.
func (c *client) deleteRecords(t *topic) {
	l := c.leader(t)
	if l == nil || c.w.net.send(l.ctx, clients, l.id) != nil || l.dead.Load() {
		return
	}
	log, err := l.set.Leader(t.partitionID(), c.known[t.name])
	if err != nil || l.set.CheckEndOffset(t.partitionID()) != nil {
		return
	}
	before := log.HighWatermark() - c.random.Int64N(40)
	if before <= log.LogStart() {
		return
	}
	c.w.oracle.deleteStarted(t.name, before)
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	epoch := log.LeaderEpoch()
	if log.DeleteBefore(before) != nil {
		return
	}
	if low, err := l.set.AwaitLogStart(ctx, t.partitionID(), before); err == nil && !l.dead.Load() {
		c.w.oracle.deleteConfirmed(t.name, deletion{low, epoch})
	}
}

// deleteStarted processes a deletion before the leader executes it.
func (o *oracle) deleteStarted(name string, before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	t.deletedTo = max(t.deletedTo, before)
	t.count.deleted++
}

// deleteConfirmed processes the confirmation that all in-sync replicas have deleted the records.
func (o *oracle) deleteConfirmed(name string, confirmed deletion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if confirmed.to > t.confirmedDelete.to && !t.lostRecords {
		t.confirmedDelete = confirmed
		t.count.deletesConfirmed++
	}
}

func (o *oracle) deletedTo(name string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).deletedTo
}

// checkConfirmedDelete fails if a leader has records whose deletion was confirmed to a client.
func (o *oracle) checkConfirmedDelete(t *partitionModel, l *liveBroker, state replica.State) {
	if start := state.Log.LogStart(); start < t.confirmedDelete.to &&
		state.LeaderEpoch >= t.confirmedDelete.epoch &&
		!t.lostRecords {
		o.w.fail(
			"%s: broker %d leads in epoch %d with log start %d; in epoch %d a client received that all records below %d are deleted",
			t.name,
			l.id,
			state.LeaderEpoch,
			start,
			t.confirmedDelete.epoch,
			t.confirmedDelete.to,
		)
	}
}

// checkLogStart fails if a log has deleted records that neither a client nor retention was allowed
// to delete.
func (o *oracle) checkLogStart(t *partitionModel, l *liveBroker, log *logstore.Log) {
	start := log.LogStart()
	if start <= max(t.deletedTo, t.expiredTo) || t.lostRecords || !t.settings.Delete {
		return
	}
	f, kept := t.retainedBelow(start, time.Now())
	if kept && !t.mayExpireBySize(log.Stats().SizeBytes) {
		o.w.fail(
			"%s: broker %d has log start %d; clients deleted up to %d only, and retention must keep %+v; log size %d",
			t.name,
			l.id,
			start,
			t.deletedTo,
			f,
			log.Stats().SizeBytes,
		)
		return
	}
	t.expiredTo = start
	t.count.expired++
}

// mayExpireBySize reports whether retention by size may have deleted records of a log with the
// given present size. The log can be smaller than the limit. A follower that is behind adopts its
// leader's log start offset. In a compacted topic, the cleaner may have removed some of the
// remaining records.
func (t *partitionModel) mayExpireBySize(sizeBytes int64) bool {
	return t.settings.RetentionBytes >= 0 &&
		(t.settings.Compact || sizeBytes >= t.settings.RetentionBytes/2)
}

// retainedBelow returns a record below an offset that must still exist, because neither clients nor
// retention were allowed to delete it. It ignores records that the cleaner may have removed:
// superseded records, tombstones, transaction markers, and records of transactions that were not
// committed.
func (t *partitionModel) retainedBelow(start int64, now time.Time) (f logRecord, kept bool) {
	latest := map[string]int64{}
	for offset, f := range t.committed {
		if t.settings.Compact {
			latest[f.key] = max(latest[f.key], offset)
		}
	}
	for offset, f := range t.committed {
		unexpired := t.settings.RetentionTime < 0 ||
			now.Sub(time.UnixMilli(f.timestamp)) <= t.settings.RetentionTime
		cleaned := t.settings.Compact && (latest[f.key] > offset || f.deleted || !t.takesEffect(f))
		if offset >= max(t.deletedTo, t.expiredTo) && offset < start && unexpired && !cleaned {
			return f, true
		}
	}
	return logRecord{}, false
}
