package logstore

import (
	"testing"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/progress"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestF4CleaningProgressIsTruncatedWithTheLog checks that a truncation of the log also truncates
// its cleaning progress, in memory and in the checkpoint. The checkpoint is written before any file
// is truncated (F4).
func TestF4CleaningProgressIsTruncatedWithTheLog(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) { s.Compact, s.Delete = true, false }))
	fill(t, log, 50)
	store.tick(epoch0, false)
	if err := log.compaction.Progress.SetCleaned(progress.Basis{Truncations: log.truncations.Load()},
		clean.Stats{CleanedTo: 40, TombstoneCleanOffset: 40, AwaitsReplicasAt: -1}); err != nil {
		t.Fatal(err)
	}
	log.compaction.Progress.SetReplicasTombstoneClean(38)
	if err := log.TruncateTo(25); err != nil {
		t.Fatal(err)
	}
	after := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	for name, l := range map[string]*Log{"now": log, "after a crash": after} {
		l.compaction.Progress.SetReplicasTombstoneClean(30) // a value from before the truncation
		l.compaction.Progress.SetReplicasTombstoneClean(39)
		if l.compaction.Progress.TombstoneClean() != 20 {
			t.Errorf("%s: tombstone-clean offset %d, want 20", name,
				l.compaction.Progress.TombstoneClean())
		}
	}
	for name, l := range map[string]*Log{"now": log, "after a crash": after} {
		l.compaction.Progress.SetReplicasTombstoneClean(20)
		if _, ok := l.compaction.Progress.ForPass().Since(19); !ok {
			t.Errorf("%s: the progress below the truncation is lost", name)
		}
	}
	if err := log.StartAt(30); err != nil {
		t.Fatal(err)
	}
	if _, ok := log.compaction.Progress.ForPass().Since(0); ok ||
		log.compaction.Progress.TombstoneClean() != 30 {
		t.Errorf("empty log: progress %v, tombstone-clean offset %d",
			log.compaction.Progress.ForPass(),
			log.compaction.Progress.TombstoneClean())
	}
}
