package cleaner

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// has reports whether the log has a record with the given key.
func (f *fixture) has(key string) bool {
	f.t.Helper()
	return slices.ContainsFunc(readKeys(f.t, f.log, 0),
		func(text string) bool { return strings.HasSuffix(text, "="+key) })
}

// TestX3ReplicatedProgressSurvivesRestart checks that the replicated cleaning progress and the
// tombstone-clean offset survive a restart. So the retention of tombstones does not start again
// after a restart.
func TestX3ReplicatedProgressSurvivesRestart(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		f.log.Compaction().Progress.SetReplicasTombstoneClean(0)
		f.put("gone")
		f.delete("gone")
		keys, _ := updatesOf(40, 3)
		f.put(keys...)
		f.until(time.Minute, "clean log",
			func() bool { return f.log.Compaction().Progress.TombstoneClean() > 2 })
		clean := f.log.Compaction().Progress.TombstoneClean()
		// Wait longer than the retention. The tombstone stays, because another replica still has an
		// older record of the tombstone's key.
		wait(3 * time.Hour)
		f.log.Compaction().Progress.SetReplicasTombstoneClean(clean)
		wait(40 * time.Minute)
		f.restart()
		if f.log.Compaction().Progress.TombstoneClean() != clean {
			t.Errorf("tombstone-clean offset %d; before the restart %d",
				f.log.Compaction().Progress.TombstoneClean(),
				clean)
		}
		// A new leader reports 0, because not all replicas have reported to it yet.
		f.log.Compaction().Progress.SetReplicasTombstoneClean(0)
		wait(10 * time.Minute)
		f.log.Compaction().Progress.SetReplicasTombstoneClean(clean)
		wait(9 * time.Minute)
		if !f.has("gone") {
			t.Error("the tombstone was removed before its retention")
		}
		wait(6 * time.Minute)
		if f.has("gone") {
			t.Error(
				"the tombstone is not removed 65 minutes after all replicas have reached it",
			)
		}
	})
}

// TestX1LostTombstoneStateIsRecomputed checks the loss of the checkpoint with the tombstone-clean
// offset. A pass recomputes the offset, even if nothing is appended to the log. Otherwise no
// replica would ever remove its tombstones.
func TestX1LostTombstoneStateIsRecomputed(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		keys, _ := updatesOf(40, 3)
		f.put(keys...)
		f.until(time.Minute, "clean log",
			func() bool { return f.log.Compaction().Progress.TombstoneClean() > 2 })
		clean := f.log.Compaction().Progress.TombstoneClean()
		if err := errors.Join(f.store.Close(),
			f.fsys.Remove(dataDir+"/"+checkpoint.CleaningFile)); err != nil {
			t.Fatal(err)
		}
		f.restart()
		if f.log.Compaction().Progress.TombstoneClean() != 0 {
			t.Errorf("tombstone-clean offset %d after the loss, want 0",
				f.log.Compaction().Progress.TombstoneClean())
		}
		wait(65 * time.Minute)
		if f.log.Compaction().Progress.TombstoneClean() != clean {
			t.Errorf("tombstone-clean offset %d, want %d again",
				f.log.Compaction().Progress.TombstoneClean(), clean)
		}
	})
}
