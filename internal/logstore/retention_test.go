package logstore

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

func TestCountExpired(t *testing.T) {
	const minute = int64(time.Minute / time.Millisecond)
	now := epoch0
	segments := []segmentInfo{
		{10, 100, now.UnixMilli() - 4*minute}, {20, 100, now.UnixMilli() - 3*minute},
		{30, 100, now.UnixMilli() - 2*minute}, {40, 100, now.UnixMilli() - minute},
	}
	// The log has these four segments, and 50 bytes in the active segment.
	all := logInfo{logStart: 0, highWatermark: 45, sizeBytes: 450}
	forever := func(change func(*topicconfig.Settings)) topicconfig.Settings {
		return settings(func(s *topicconfig.Settings) {
			s.RetentionTime, s.RetentionBytes = topicconfig.Unlimited, topicconfig.Unlimited
			change(s)
		})
	}
	byTime := func(d time.Duration) topicconfig.Settings {
		return forever(func(s *topicconfig.Settings) { s.RetentionTime = d })
	}
	bySize := func(bytes int64) topicconfig.Settings {
		return forever(func(s *topicconfig.Settings) { s.RetentionBytes = bytes })
	}
	for _, test := range []struct {
		name     string
		log      logInfo
		settings topicconfig.Settings
		want     int
	}{
		{"no limit", all, forever(func(*topicconfig.Settings) {}), 0},
		{"by time: a segment of exactly the retention time stays", all, byTime(3 * time.Minute), 1},
		{"by time: a segment a millisecond older is deleted", all,
			byTime(3*time.Minute - time.Millisecond), 2},
		{"by time: all", all, byTime(0), 4},
		{"by size: the log has exactly the retention size", all, bySize(450), 0},
		{"by size: less than a segment in excess", all, bySize(351), 0},
		{"by size: a segment in excess", all, bySize(350), 1},
		{"by size: all", all, bySize(0), 4},
		{"nothing above the high watermark", logInfo{0, 25, 450}, byTime(0), 2},
		{"a compacted topic keeps everything", all, forever(func(s *topicconfig.Settings) {
			s.Delete, s.Compact, s.RetentionTime, s.RetentionBytes = false, true, 0, 0
		}), 0},
		{"a topic with both policies deletes (KIP-71)", all,
			forever(func(s *topicconfig.Settings) { s.Compact, s.RetentionTime = true, 0 }), 4},
		{"below the log start, even of a compacted topic (KAFKA-7400)", logInfo{25, 45, 450},
			forever(func(s *topicconfig.Settings) {
				s.Delete, s.Compact = false, true
			}), 2},
	} {
		if got := countExpired(segments, test.log, test.settings, now); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	// Retention deletes only from the start of the log: if a segment is kept, all later segments
	// are kept.
	segments[0].newest = now.UnixMilli()
	if got := countExpired(segments, all, byTime(time.Minute), now); got != 0 {
		t.Errorf("%d segments, want 0 because the first one is young", got)
	}
}

func TestRetentionMovesLogStartDurably(t *testing.T) {
	mem := vfs.NewMem()
	store, log := swapLog(t, mem)
	if err := log.Lead(3); err != nil {
		t.Fatal(err)
	}
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionBytes = 1900 }), true)
	store.tick(epoch0, true)
	if got := bases(log); !slices.Equal(got, []int64{30, 40}) || log.LogStart() != 30 {
		t.Errorf("segments %v, log start %d", got, log.LogStart())
	}
	if files := filesWith(t, mem, log.dir, swap.DeletedSuffix); len(files) > 0 {
		t.Errorf("left behind: %v", files)
	}
	log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if got := readKeys(t, log, 30); !slices.Equal(got, expectKeys(30, 50)) || log.LogStart() != 30 {
		t.Errorf("after a crash: log start %d, read %v", log.LogStart(), got)
	}
}

func TestExpiredActiveSegmentIsRolledAndDeleted(t *testing.T) {
	store, log := swapLog(t, vfs.NewMem())
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionTime = time.Hour }), true)
	store.tick(epoch0.Add(time.Hour), true)
	if log.LogStart() != 0 {
		t.Fatalf("deleted to %d a millisecond too early", log.LogStart())
	}
	later := epoch0.Add(time.Hour + time.Millisecond)
	store.tick(later, true) // rolls the segment without sealing it yet
	store.tick(later, true)
	if log.LogStart() != 50 || len(bases(log)) != 1 {
		t.Errorf("log start %d, segments %v", log.LogStart(), bases(log))
	}
	fill(t, log, 1)
	if got := readKeys(t, log, 50); !slices.Equal(got, expectKeys(50, 51)) {
		t.Errorf("read %v", got)
	}
}

// TestUnconfiguredLogDeletesNothing checks that after a start, retention deletes nothing until
// Create sets the topic's settings: the defaults do not apply.
func TestUnconfiguredLogDeletesNothing(t *testing.T) {
	mem := vfs.NewMem()
	store, _ := swapLog(t, mem)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, mem)
	store.tick(epoch0.Add(1000*time.Hour), true)
	if log := store.Log(partition); log.LogStart() != 0 || log.Settings().Compact {
		t.Errorf("log start %d, %+v", log.LogStart(), log.Settings())
	}
}

func TestIdleSegmentsRoll(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*topicconfig.Settings)
		after  time.Duration
		rolls  bool
	}{
		{"not at exactly the segment age",
			func(s *topicconfig.Settings) { s.SegmentAge = time.Hour }, time.Hour, false},
		{"above the segment age", func(s *topicconfig.Settings) { s.SegmentAge = time.Hour }, time.Hour +
			1,
			true},
		{"maxLag of a compacted topic (KIP-354)",
			func(s *topicconfig.Settings) { s.Compact, s.MaxLag = true, time.Minute },
			time.Minute + 1, true},
		{"maxLag does not apply to other topics",
			func(s *topicconfig.Settings) { s.MaxLag = time.Minute },
			time.Minute + 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := createLog(t, openStore(t, vfs.NewMem()), settings(test.change))
			// The old timestamp of the record has no effect, because rollIdle uses the broker's
			// clock.
			appendAt(t, log, epoch0.Add(-1000*time.Hour))
			if err := log.rollIdle(epoch0.Add(test.after)); err != nil {
				t.Fatal(err)
			}
			if rolled := len(bases(log)) == 2; rolled != test.rolls {
				t.Errorf("rolled: %t", rolled)
			}
			if err := log.rollIdle(epoch0.Add(10000 * time.Hour)); err != nil {
				t.Fatal(err)
			}
			if len(bases(log)) != 2 {
				t.Errorf("an empty segment was rolled: %v", bases(log))
			}
		})
	}
}

func TestAppendRollsByTimestamps(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()),
		settings(func(s *topicconfig.Settings) { s.SegmentAge = time.Minute }))
	for _, moment := range []time.Duration{0, time.Minute, -time.Hour, time.Minute + time.Millisecond,
		0} {
		appendAt(t, log, epoch0.Add(moment))
	}
	if got := bases(log); !slices.Equal(got, []int64{0, 3}) {
		t.Errorf("segments %v", got)
	}
}

// TestSegmentThatCannotBeRenamedStays checks that if retention cannot rename a file of a segment,
// this segment and all later ones stay, and are deleted once the disk works.
func TestSegmentThatCannotBeRenamedStays(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	_, log := swapLog(t, fault)
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionTime = 0 }), true)
	later := epoch0.Add(time.Hour)
	fault.Inject(vfs.Rule{Op: vfs.OpRename, Name: "00000000000000000010.timeindex"})
	for range 2 {
		if err := log.applyRetention(later); log.LogStart() == 10 != errors.Is(err, ErrStorage) {
			t.Errorf("log start %d, %v", log.LogStart(), err)
		}
	}
	if got := readKeys(t, log, 10); log.LogStart() != 10 || !slices.Equal(got, expectKeys(10, 50)) {
		t.Errorf("log start %d, read %v", log.LogStart(), got)
	}
	fault.Clear()
	if err := log.applyRetention(later); err != nil || log.LogStart() < 40 {
		t.Errorf("with a working disk: log start %d, %v", log.LogStart(), err)
	}
}

// TestRetentionOfUnsealedSegmentsOnFullDisk fills the disk before any segment is sealed, although
// sealing needs space. Retention must delete segments nevertheless, because otherwise the log could
// never accept appends again.
func TestRetentionOfUnsealedSegmentsOnFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	log := createLog(t, store, settings(func(s *topicconfig.Settings) { s.RetentionBytes = 2400 }))
	fill(t, log, 45)
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Err: syscall.ENOSPC})
	store.tick(epoch0, true)
	if log.LogStart() != 20 {
		t.Errorf("log start %d, want 20", log.LogStart())
	}
	if gone := filesWith(t, mem, log.dir, swap.DeletedSuffix); len(gone) > 0 {
		t.Errorf("left: %v", gone)
	}
	fault.Clear()
	store.tick(epoch0, true)
	fill(t, log, 1)
	if got := readKeys(t, log, 20); !slices.Equal(got, expectKeys(20, 46)) {
		t.Errorf("read %v", got)
	}
	// The new log start survives a crash. Otherwise a start would treat the unsynced segments as
	// sealed.
	for seed := range seed.Sequence(t, 50) {
		log := createLog(t, openStore(t, mem.CrashClonePartly(seed)), settings(nil))
		if got := readKeys(t, log, 20); log.LogStart() != 20 ||
			!slices.Equal(got, expectKeys(20, log.LogEnd())) || len(got) < 25 {
			t.Errorf("seed %d: after a crash the log is [%d, %d): %v", seed, log.LogStart(),
				log.LogEnd(), got)
		}
	}
}

// TestCrashAtEveryStepOfRetention cuts the power at any step of a retention round that deletes
// several segments. The remaining log is the whole old log or its end, without a gap. As in the
// middle of a tick, the records were flushed, but the checkpoint with the new recovery point was
// not yet written.
func TestCrashAtEveryStepOfRetention(t *testing.T) {
	for step := 0; ; step++ {
		mem := vfs.NewMem()
		fault := vfs.NewFault(mem)
		store := openStore(t, fault)
		log := createLog(t, store, settings(nil))
		fill(t, log, 50)
		if err := log.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionBytes = 1500 }), true)
		fault.Inject(vfs.Rule{Skip: step})
		err := log.applyRetention(epoch0)
		for seed := range uint64(12) {
			log := createLog(t, openStore(t, crash(mem, seed)), settings(nil))
			start := log.LogStart()
			if start%10 != 0 || start > 40 {
				t.Fatalf("step %d, seed %d: the log begins at %d", step, seed, start)
			}
			if got := readKeys(t, log, start); !slices.Equal(got, expectKeys(start, 50)) {
				t.Fatalf("step %d, seed %d: read %v", step, seed, got)
			}
		}
		if err == nil {
			if log.LogStart() < 30 {
				t.Errorf("log start %d after retention, want at least 30", log.LogStart())
			}
			return
		}
	}
}
