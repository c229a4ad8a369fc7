package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// retentionInterval is how often retention looks.
const retentionInterval = 2 * time.Second

// expiry is how the records of a topic go. The zero value: they do not.
type expiry struct {
	after     time.Duration // 0: not by time
	sizeBytes int64         // 0: not by size
}

// newExpiry draws, for each topic, whether and how its records go. Those of "synced" stay: it is
// for what lasts.
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

// expires tells whether retention takes records of the topic.
func (t *topic) expires() bool {
	return t.settings.Delete && (t.settings.RetentionTime >= 0 || t.settings.RetentionBytes >= 0)
}

// gone is what clients were told is deleted, by the leader of an epoch.
type gone struct {
	to    int64
	epoch int32
}

// deleteRecords gives up records of a topic up to somewhere below its high watermark, as Kafka's
// DeleteRecords does. Where it is told that no replica in sync has them, nobody may ever see them
// again.
func (c *client) deleteRecords(t *topic) {
	l := c.leader(t)
	if l == nil || c.w.net.travel(l.ctx, clients, l.id) != nil || l.dead.Load() {
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
	c.w.oracle.deletes(t.name, before)
	ctx, cancel := context.WithTimeout(l.ctx, 3*time.Second)
	defer cancel()
	epoch := log.LeaderEpoch()
	if log.DeleteBefore(before) != nil {
		return
	}
	if low, err := l.set.AwaitLogStart(ctx, t.partitionID(), before); err == nil && !l.dead.Load() {
		c.w.oracle.hasDeleted(t.name, gone{low, epoch})
	}
}

// deletes is told before records are deleted.
func (o *oracle) deletes(name string, before int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	t.deletedTo = max(t.deletedTo, before)
	t.count.deleted++
}

// hasDeleted is told when a client may be told that all in sync have deleted records.
func (o *oracle) hasDeleted(name string, what gone) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.of(name)
	if what.to > t.goneTo.to && !t.tainted {
		t.goneTo = what
		t.count.gone++
	}
}

func (o *oracle) deletedTo(name string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of(name).deletedTo
}

// lookAtGone fails when a leader shows again what clients were told is deleted.
func (o *oracle) lookAtGone(t *truth, l *life, state replica.State) {
	if start := state.Log.LogStart(); start < t.goneTo.to && state.LeaderEpoch >= t.goneTo.epoch &&
		!t.tainted {
		o.w.fail(
			"%s: broker %d leads in epoch %d with a log from %d on; a client was told in epoch %d that what is below %d is deleted",
			t.name,
			l.id,
			state.LeaderEpoch,
			start,
			t.goneTo.epoch,
			t.goneTo.to,
		)
	}
}

// lookAtStart fails when a log has given up what neither a client nor retention takes.
func (o *oracle) lookAtStart(t *truth, l *life, log *logstore.Log) {
	start := log.LogStart()
	if start <= max(t.deletedTo, t.expiredTo) || t.tainted || !t.settings.Delete {
		return
	}
	if f, kept := t.keptBelow(start, time.Now()); kept && !t.tooLarge(log.Stats().SizeBytes) {
		o.w.fail(
			"%s: the log of broker %d begins at %d, and nobody deleted above %d, nor has retention taken %+v; it has %d bytes",
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

// tooLarge tells whether retention by size may have made a log as small as that. A follower that
// was behind goes by its leader's log, and what retention has left may have been cleaned since.
func (t *truth) tooLarge(sizeBytes int64) bool {
	return t.settings.RetentionBytes >= 0 &&
		(t.settings.Compact || sizeBytes >= t.settings.RetentionBytes/2)
}

// keptBelow finds a record below an offset that retention by time has to keep. The cleaner may have
// removed one that is superseded, a tombstone, a marker, or of a transaction that was not
// committed.
func (t *truth) keptBelow(start int64, now time.Time) (f fact, kept bool) {
	latest := map[string]int64{}
	for offset, f := range t.settled {
		if t.settings.Compact {
			latest[f.key] = max(latest[f.key], offset)
		}
	}
	for offset, f := range t.settled {
		young := t.settings.RetentionTime < 0 ||
			now.Sub(time.UnixMilli(f.timestamp)) <= t.settings.RetentionTime
		cleaned := t.settings.Compact && (latest[f.key] > offset || f.deleted || !t.counts(f))
		if offset >= max(t.deletedTo, t.expiredTo) && offset < start && young && !cleaned {
			return f, true
		}
	}
	return fact{}, false
}
