package sim

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// heal mends everything, and fails unless everything is well again after a while: each partition
// led, all replicas in sync and alike, and the readers at the end.
func (w *world) heal() {
	if w.failed() {
		return
	}
	w.note("everything is mended")
	w.mu.Lock()
	w.mu.mended = true
	w.mu.Unlock()
	w.net.change(func() {
		clear(w.net.cut)
		clear(w.net.held)
		clear(w.net.slow)
	})
	w.mendLater()
	w.meta.mu.Lock()
	w.meta.mu.away = false
	w.meta.mu.Unlock()
	for began, asked := time.Now(), false; !w.well() && !w.failed(); {
		if time.Since(began) > healTime {
			w.fail("not well again after %s: %s", healTime, w.ill())
			return
		}
		if time.Since(began) > healTime/2 && !asked {
			asked = true
			w.acceptLoss()
		}
		w.pass(500 * time.Millisecond)
	}
	w.calm()
	w.pass(writeTimeout + readTimeout)
	w.pass(3 * time.Second)
	if !w.failed() {
		w.compare()
	}
}

// mendLater keeps of what is due only the starts: the network is whole already.
func (w *world) mendLater() {
	w.due = nil
	for _, b := range w.members() {
		if b.life.Load() == nil {
			w.later(time.Duration(b.id)*50*time.Millisecond, func() { w.start(b) })
		}
	}
}

// acceptLoss agrees to lose what is lost, where nobody is left who may lead.
func (w *world) acceptLoss() {
	w.meta.mu.Lock()
	defer w.meta.mu.Unlock()
	if slices.ContainsFunc(w.meta.mu.topics,
		func(t *topic) bool { return t.partition.Leader == metadata.NoBroker }) {
		w.note("somebody agrees to lose what is lost")
		w.meta.mu.lossy = true
	}
}

func (w *world) well() bool { return w.ill() == "" }

// ill names a partition that is not well: nobody leads it, a replica is not in sync, or is on
// record in an incarnation that lives no more.
func (w *world) ill() string {
	ended := func(m placement.InSyncReplica) bool {
		l := w.brokers[m.Broker].life.Load()
		return l == nil || l.epoch.Load() != m.Epoch
	}
	for _, t := range w.meta.mu.topics {
		p := w.meta.recorded(t.name)
		if p.Leader == metadata.NoBroker || w.scale.wanted(p) || p.Target != nil ||
			len(p.ISR) < len(p.Replicas) || slices.ContainsFunc(p.ISR, ended) {
			return t.name
		}
	}
	return ""
}

// compare compares all replicas with each other, and the readers with them.
func (w *world) compare() {
	for _, t := range w.meta.mu.topics {
		p := w.meta.recorded(t.name)
		var first []byte
		var values map[string]fact
		var end, start int64
		// what was deleted at one, and not yet at its successor as leader
		for _, id := range p.Replicas {
			if l := w.brokers[id].life.Load(); l != nil && l.store.Log(t.partitionID()) != nil {
				start = max(start, l.store.Log(t.partitionID()).LogStart())
			}
		}
		for i, id := range p.Replicas {
			l := w.brokers[id].life.Load()
			if l == nil {
				w.fail("%s: broker %d is not there", t.name, id)
				return
			}
			log := l.store.Log(t.partitionID())
			if log == nil || log.HighWatermark() != log.LogEnd() {
				w.fail(
					"%s: broker %d has not all below its high watermark, and nothing is written any more",
					t.name,
					id,
				)
				return
			}
			if stable := log.LastStable(); stable < log.LogEnd() && !w.oracle.tainted(t.name) &&
				!w.oracle.isOpen(t.name) {
				w.fail(
					"%s: at broker %d a transaction that has ended holds the last stable offset at %d; the log ends at %d",
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
				w.fail("%s: the values of keys at broker %d are %+v, at broker %d %+v", t.name,
					p.Replicas[0], values, id, has)
				return
			}
			if log.LogEnd() != end || !t.settings.Compact && !bytes.Equal(first, content) {
				w.fail("%s: broker %d ends at %d with %d bytes, broker %d at %d with %d", t.name,
					p.Replicas[0], end, len(first), id, log.LogEnd(), len(content))
				return
			}
		}
		for _, c := range w.tails {
			c.mu.Lock()
			reached := c.mu.reached[t.name]
			c.mu.Unlock()
			if reached != end && !w.oracle.tainted(t.name) {
				w.fail("%s: a reader stands at %d, the end is %d", t.name, reached, end)
			}
		}
	}
}

// values are the latest records of keys that have a value, as a log has them from an offset on:
// those that every replica of a compacted topic has, however far it is cleaned.
func (w *world) values(t *topic, log *logstore.Log, start int64) map[string]fact {
	facts, err := read(log, log.LogStart(), log.LogEnd())
	if err != nil {
		w.fail("%s: read [%d, %d): %v", t.name, log.LogStart(), log.LogEnd(), err)
		return nil
	}
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	values := w.oracle.of(t.name).latestOf(facts, log.LogEnd())
	maps.DeleteFunc(values, func(_ string, f fact) bool { return f.deleted || f.offset < start })
	return values
}

// content is a log from an offset on, as it lies in its files.
func content(w *world, log *logstore.Log, start int64) (all []byte) {
	for at := max(start, log.LogStart()); at < log.LogEnd(); {
		slice, err := log.ReadReplica(at, 1<<20, true)
		if err != nil {
			w.fail("read: %v", err)
			return nil
		}
		buf := make([]byte, slice.Length)
		if slice.Length > 0 {
			_, err = slice.File.ReadAt(buf, slice.Position)
		}
		slice.Release()
		_, next, _, bad := factsOf(buf)
		if err != nil || bad != nil || next <= at {
			return all // the end of a cleaned log may be empty
		}
		all, at = append(all, buf...), next
	}
	return all
}
