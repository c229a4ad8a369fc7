package sim

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/vfs"
)

// damageLog damages one topic's log on a broker, like a user who removes files or restores an older
// copy. If the broker runs, it is killed first. If the broker has stopped gracefully, its disk also
// shows that nothing should be missing.
func (w *world) damageLog(b *broker) {
	if b.stopping || !w.mayLoseSynced(b) {
		return
	}
	t, disk := w.randomTopic(), b.disk.KillClone()
	_, err := disk.Stat("/data/.kafka_cleanshutdown")
	dir, clean := "/data/"+t.partitionID().String(), err == nil
	what := w.damage(disk, dir, clean)
	if what == "" {
		return
	}
	w.tracef("%s: on broker %d, %s; clean shutdown: %t", t.name, b.id, what, clean)
	if l := b.live.Load(); l != nil {
		w.endProcess(l, exit{lostAll: true}, w.downtime())
	} else {
		b.loseAll()
	}
	b.disk = disk
	w.scale.count.damaged++
}

// damage damages a log and returns a description of the damage, or "" if there is no log.
func (w *world) damage(disk *vfs.Mem, dir string, clean bool) string {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return ""
	}
	var segments []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".log") {
			segments = append(segments, filepath.Join(dir, entry.Name()))
		}
	}
	slices.Sort(segments)
	kind := w.random.IntN(3)
	switch {
	case len(segments) == 0:
		return ""
	case kind == 0:
		w.must(disk.RemoveAll(dir), disk.SyncDir("/data"))
		return "the directory is removed"
	case kind == 1 && clean:
		index := w.random.IntN(len(segments))
		w.must(disk.Remove(segments[index]), disk.SyncDir(dir))
		return "segment " + segments[index] + " is removed"
	}
	file, err := disk.OpenReadWrite(segments[len(segments)-1])
	w.must(err)
	size, err := file.Size()
	w.must(err, file.Truncate(size/2), file.Sync(), file.Close())
	return "the last segment is truncated"
}

func (w *world) must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		w.fail("damage a log: %v", err)
	}
}

// loseAll records that a broker that is down has lost records.
func (b *broker) loseAll() {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if len(b.exits) > 0 {
		b.exits[len(b.exits)-1].lostAll = true
	}
}

// lost reports whether the process has detected that it lost a topic's log.
func (l *liveBroker) lost(t *topic) bool {
	log := l.store.Log(t.partitionID())
	return log != nil && log.Notes().Loss() != ""
}

// recordLosses records the losses that the process has found at its start, with one write for each
// topic. It repeats failed writes until the process ends.
func (l *liveBroker) recordLosses() error {
	for _, lost := range l.losses.In(l.w.cluster) {
		t := l.w.meta.topicNamed(lost.Topic)
		for {
			ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
			err := l.writer.ChangeStatus(ctx, t.set, func(s *partitionset.Set) error {
				s.RecordLoss(t.key(), l.id, lost)
				return nil
			})
			cancel()
			if err == nil {
				break
			}
			if err := sleep(l.ctx, time.Second); err != nil {
				return err
			}
		}
		l.w.tracef("%s: broker %d has recorded the loss of its log", t.name, l.id)
	}
	return nil
}
