package cleaner

import (
	"errors"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/topicconfig"
)

// has tells whether the log holds a record of a key.
func (f *cleanerFixture) has(key string) bool {
	f.t.Helper()
	return slices.ContainsFunc(readKeys(f.t, f.log, 0),
		func(text string) bool { return strings.HasSuffix(text, "="+key) })
}

// What all replicas have agreed on, and how far this one's tombstones are lonely, is known behind a
// restart: the retention goes on.
func TestX3AgreementOutlivesARestart(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *cleanerFixture) {
		f.log.Compaction().SetReplicasTombstoneClean(0)
		f.put("gone")
		f.delete("gone")
		keys, _ := updates(40, 3)
		f.put(keys...)
		f.until(time.Minute, "the log is clean",
			func() bool { return f.log.Compaction().TombstoneClean() > 2 })
		lonely := f.log.Compaction().TombstoneClean()
		// longer than it is kept here: another replica still has what it deletes
		wait(3 * time.Hour)
		f.log.Compaction().SetReplicasTombstoneClean(lonely)
		wait(40 * time.Minute)
		f.restart()
		if f.log.Compaction().TombstoneClean() != lonely {
			t.Errorf("its tombstones are lonely below %d; before the restart %d",
				f.log.Compaction().TombstoneClean(),
				lonely)
		}
		// a leader that has not heard of all replicas yet
		f.log.Compaction().SetReplicasTombstoneClean(0)
		wait(10 * time.Minute)
		f.log.Compaction().SetReplicasTombstoneClean(lonely)
		wait(9 * time.Minute)
		if !f.has("gone") {
			t.Error("the tombstone went before its retention was over")
		}
		wait(6 * time.Minute)
		if f.has("gone") {
			t.Error(
				"the tombstone is there 65 minutes after all replicas agreed on it, of which some were before a restart",
			)
		}
	})
}

// Nobody writes, and the checkpoint is lost, or was never there: a pass finds out by itself, or all
// replicas would keep their tombstones for ever.
func TestX1WhatIsNotKnownOfTombstonesIsFoundOut(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = time.Hour })
	inBubble(t, config, Options{}, func(t *testing.T, f *cleanerFixture) {
		keys, _ := updates(40, 3)
		f.put(keys...)
		f.until(time.Minute, "the log is clean",
			func() bool { return f.log.Compaction().TombstoneClean() > 2 })
		lonely := f.log.Compaction().TombstoneClean()
		if err := errors.Join(f.store.Close(),
			f.fsys.Remove(dataDir+"/"+checkpoint.CleaningFile)); err != nil {
			t.Fatal(err)
		}
		f.restart()
		if f.log.Compaction().TombstoneClean() != 0 {
			t.Errorf("it is said to have lonely tombstones below %d",
				f.log.Compaction().TombstoneClean())
		}
		wait(65 * time.Minute)
		if f.log.Compaction().TombstoneClean() != lonely {
			t.Errorf("its tombstones are lonely below %d, want %d again",
				f.log.Compaction().TombstoneClean(), lonely)
		}
	})
}
