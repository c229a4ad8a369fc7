package logstore

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
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
	inBubble(t, config, CleanerOptions{}, func(t *testing.T, f *cleanerFixture) {
		f.log.SetReplicasLonely(0)
		f.put("gone")
		f.delete("gone")
		keys, _ := updates(40, 3)
		f.put(keys...)
		f.until(time.Minute, "the log is clean", func() bool { return f.log.LonelyTo() > 2 })
		lonely := f.log.LonelyTo()
		// longer than it is kept here: another replica still has what it deletes
		wait(3 * time.Hour)
		f.log.SetReplicasLonely(lonely)
		wait(40 * time.Minute)
		f.restart()
		if f.log.LonelyTo() != lonely {
			t.Errorf("its tombstones are lonely below %d; before the restart %d", f.log.LonelyTo(),
				lonely)
		}
		f.log.SetReplicasLonely(0) // a leader that has not heard of all replicas yet
		wait(10 * time.Minute)
		f.log.SetReplicasLonely(lonely)
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
	inBubble(t, config, CleanerOptions{}, func(t *testing.T, f *cleanerFixture) {
		keys, _ := updates(40, 3)
		f.put(keys...)
		f.until(time.Minute, "the log is clean", func() bool { return f.log.LonelyTo() > 2 })
		lonely := f.log.LonelyTo()
		if err := errors.Join(f.store.Close(),
			f.fsys.Remove(dataDir+"/"+checkpoint.CleaningFile)); err != nil {
			t.Fatal(err)
		}
		f.restart()
		if f.log.LonelyTo() != 0 {
			t.Errorf("it is said to have lonely tombstones below %d", f.log.LonelyTo())
		}
		wait(65 * time.Minute)
		if f.log.LonelyTo() != lonely {
			t.Errorf("its tombstones are lonely below %d, want %d again", f.log.LonelyTo(), lonely)
		}
	})
}

// What is cut off says nothing of what comes there; on disk too, before anything is cut (F4).
func TestF4AgreementIsCutWithTheLog(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store,
		settings(func(s *topicconfig.Settings) { s.Compact, s.Delete = true, false }))
	fill(t, log, 50)
	store.tick(epoch0, false)
	if err := log.setCleanedIn(log.lineage.Load(),
		clean.Stats{CleanedTo: 40, TombstoneCleanOffset: 40, AwaitsReplicasAt: -1}); err != nil {
		t.Fatal(err)
	}
	log.SetReplicasLonely(38)
	if err := log.TruncateTo(25); err != nil {
		t.Fatal(err)
	}
	after := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	for name, l := range map[string]*Log{"now": log, "after a crash": after} {
		l.SetReplicasLonely(30) // of before the cut
		l.SetReplicasLonely(39)
		if l.LonelyTo() != 20 {
			t.Errorf("%s: its tombstones are lonely below %d, want 20", name, l.LonelyTo())
		}
	}
	for name, l := range map[string]*Log{"now": log, "after a crash": after} {
		l.SetReplicasLonely(20)
		if _, ok := l.agreement.agreed().Since(19); !ok {
			t.Errorf("%s: what was agreed on below the cut is forgotten", name)
		}
	}
	if err := log.StartAt(30); err != nil {
		t.Fatal(err)
	}
	if _, ok := log.agreement.agreed().Since(0); ok || log.LonelyTo() != 30 {
		t.Errorf("an empty log: %v, lonely below %d", log.agreement.agreed(), log.LonelyTo())
	}
}

// A log that was the only replica has removed what it has removed; of what it has not, those that
// are added may have a copy.
func TestX1AgreementOfALogThatGetsReplicas(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "behind a restart": true} {
		t.Run(name, func(t *testing.T) {
			var a agreement
			a.begin(nil, 100)
			a.tell(alone, 40, epoch0, time.Hour)
			if _, ok := a.agreed().Since(99); !ok {
				t.Error("it is alone, and agrees with nobody")
			}
			if restart {
				steps := a.saved(40)
				a = agreement{}
				a.begin(steps, 100)
			}
			a.tell(60, 40, epoch0.Add(30*time.Minute), time.Hour)
			early, ok := a.agreed().Since(39)
			late, also := a.agreed().Since(40)
			if !ok || !also || early >= epoch0.Add(10*time.Minute).UnixMilli() ||
				late < epoch0.Add(30*time.Minute).UnixMilli() {
				t.Errorf("below 40 since %d (%t), above since %d (%t)", early, ok, late, also)
			}
		})
	}
}
