package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// heal ends all faults, and fails unless the cluster recovers. Each partition must have a leader,
// all replicas must be in sync and equal, and the readers must have reached the log end.
func (w *world) heal() {
	if w.failed() {
		return
	}
	w.endFaults()
	for begin, accepted := time.Now(), false; !w.recovered() && !w.failed(); {
		if time.Since(begin) > healTime {
			w.fail("not recovered after %s: %s", healTime, w.unrecovered())
			return
		}
		if time.Since(begin) > healTime/2 && !accepted {
			accepted = true
			w.acceptDataLoss()
		}
		w.runFor(500 * time.Millisecond)
	}
	w.stopWriters()
	w.runFor(writeTimeout + readTimeout)
	w.runFor(3 * time.Second)
	if !w.failed() {
		w.compare()
	}
}

// endFaults ends all faults, and starts all brokers and an operator.
func (w *world) endFaults() {
	w.tracef("all faults end")
	w.mu.Lock()
	w.mu.healed = true
	w.mu.Unlock()
	w.net.change(func() {
		clear(w.net.cut)
		clear(w.net.paused)
		clear(w.net.delays)
	})
	w.power.disarm()
	for _, b := range w.brokers {
		b.errors.end()
		w.removeFlipped(b, true)
		w.restartAfterErrors(b)
	}
	w.restartBrokers()
	if w.parent != nil {
		if live := w.parent.live.Load(); live != nil {
			live.disk.endAfter(0, false)
		}
		w.parent.start()
		return
	}
	for len(w.operators.running) > 1 {
		w.stopOperator(w.operators.running[0])
	}
	if len(w.operators.running) == 0 {
		w.startOperator()
	}
}

// restartBrokers replaces the scheduled actions with the start of every broker that is down.
func (w *world) restartBrokers() {
	w.scheduled = nil
	for _, b := range w.members() {
		if b.live.Load() == nil {
			w.schedule(time.Duration(b.id)*50*time.Millisecond, func() { w.start(b) })
		}
	}
}

// acceptDataLoss accepts data loss for the partitions without a leader.
func (w *world) acceptDataLoss() {
	if slices.ContainsFunc(w.meta.topics, func(t *topic) bool {
		p := w.meta.recorded(t.name)
		if p.Leader == metadata.NoBroker && !w.mustAwaitConsent(p) {
			w.fail("%s: no leader is elected although no in-sync replica has lost synced records: %+v",
				t.name, p)
		}
		return p.Leader == metadata.NoBroker
	}) {
		w.tracef("data loss is accepted")
		w.meta.acceptLoss.Store(true)
	}
}

func (w *world) recovered() bool { return w.unrecovered() == "" }

// unrecovered returns a partition that has not recovered, with the reason, or "" if all have
// recovered.
func (w *world) unrecovered() string {
	for _, t := range w.meta.topics {
		if reason := w.incomplete(w.meta.recorded(t.name)); reason != "" {
			return t.name + ": " + reason
		}
	}
	return ""
}

// incomplete returns the reason why a partition has not recovered, or "". A reassignment can be
// incomplete, or the ISR can contain a member with an old broker epoch.
func (w *world) incomplete(p placement.Partition) string {
	ended := func(m placement.InSyncReplica) bool {
		l := w.brokers[m.Broker].live.Load()
		return l == nil || l.epoch.Load() != m.Epoch
	}
	switch {
	case p.Leader == metadata.NoBroker:
		return "it has no leader"
	case w.scale.mustMove(p):
		return fmt.Sprintf("replicas %v, target %v must move", p.Replicas, p.Target)
	case p.Target != nil:
		return fmt.Sprintf("its reassignment to %v is incomplete", p.Target)
	case len(p.ISR) < len(p.Replicas):
		return fmt.Sprintf("ISR %+v of replicas %v", p.ISR, p.Replicas)
	case slices.ContainsFunc(p.ISR, ended):
		return fmt.Sprintf("ISR %+v has a member of an old broker epoch", p.ISR)
	}
	return ""
}

// compare compares each partition's replicas with each other, and the readers' positions with the
// log end.
func (w *world) compare() {
	for _, t := range w.meta.topics {
		p := w.meta.recorded(t.name)
		var first []byte
		var values map[string]logRecord
		var end, start int64
		// start is the highest log start offset of all replicas. The leader's offset can be lower,
		// because a new leader may not have deleted all records that its predecessor has deleted.
		for _, id := range p.Replicas {
			if l := w.brokers[id].live.Load(); l != nil && l.store.Log(t.partitionID()) != nil {
				start = max(start, l.store.Log(t.partitionID()).LogStart())
			}
		}
		for i, id := range p.Replicas {
			l := w.brokers[id].live.Load()
			if l == nil {
				w.fail("%s: broker %d is down", t.name, id)
				return
			}
			log := l.store.Log(t.partitionID())
			if log == nil || log.HighWatermark() != log.LogEnd() {
				w.fail(
					"%s: high watermark of broker %d is below its log end although no records are produced",
					t.name,
					id,
				)
				return
			}
			if stable := log.LastStable(); stable < log.LogEnd() && !w.oracle.lostRecords(t.name) &&
				!w.oracle.isOpen(t.name) {
				w.fail(
					"%s: broker %d: last stable offset %d below the log end %d although no transaction is open",
					t.name,
					id,
					stable,
					log.LogEnd(),
				)
				return
			}
			content := content(w, log, start)
			has := w.values(t, log, start)
			if i == 0 {
				first, end, values = content, log.LogEnd(), has
			}
			if !maps.Equal(values, has) {
				w.fail("%s: the values of broker %d are %+v, the values of broker %d are %+v", t.name,
					p.Replicas[0], values, id, has)
				return
			}
			if log.LogEnd() != end || !t.settings.Compact && !bytes.Equal(first, content) {
				w.fail("%s: broker %d has log end %d and %d bytes, broker %d has log end %d and %d bytes", t.name,
					p.Replicas[0], end, len(first), id, log.LogEnd(), len(content))
				return
			}
		}
		for _, c := range w.tails {
			c.mu.Lock()
			reached := c.mu.reached[t.name]
			c.mu.Unlock()
			if reached != end && !w.oracle.lostRecords(t.name) {
				w.fail("%s: a reader's position is %d, the log end is %d", t.name, reached, end)
			}
		}
	}
}

// values returns the latest record of each key whose latest record is at or above an offset and has
// a value. All replicas of a compacted topic have the same values, no matter how far each replica
// is cleaned.
func (w *world) values(t *topic, log *logstore.Log, start int64) map[string]logRecord {
	records, err := read(log, log.LogStart(), log.LogEnd())
	if err != nil {
		w.fail("%s: read [%d, %d): %v", t.name, log.LogStart(), log.LogEnd(), err)
		return nil
	}
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	values := w.oracle.of(t.name).latestOf(records, log.LogEnd())
	maps.DeleteFunc(values, func(_ string,
		f logRecord) bool {
		return f.deleted || f.offset < start
	})
	return values
}

// content returns a log's bytes from an offset on.
func content(w *world, log *logstore.Log, start int64) (all []byte) {
	for offset := max(start, log.LogStart()); offset < log.LogEnd(); {
		slice, err := log.ReadReplica(offset, 1<<20, true)
		if err != nil {
			w.fail("read: %v", err)
			return nil
		}
		buf := make([]byte, slice.Length)
		if slice.Length > 0 {
			_, err = slice.File.ReadAt(buf, slice.Position)
		}
		slice.Release()
		_, next, _, bad := decodeRecords(buf)
		if err != nil || bad != nil || next <= offset {
			return all // a cleaned log can have no records at its end
		}
		all, offset = append(all, buf...), next
	}
	return all
}
