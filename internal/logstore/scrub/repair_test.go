package scrub

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// repairs returns the repairs in a state.
func repairs(state State) []Damaged { return state.Repaired }

// TestDerivedFilesAreRepaired flips a bit of each kind of derived file, truncates the file, and
// extends it. The new file equals the original, and reads and appends work as before.
func TestDerivedFilesAreRepaired(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for _, kind := range []string{".index", ".timeindex", ".txnindex", ".keys"} {
		for how, damage := range map[string]func(t *testing.T, fsys vfs.FS, name string){
			"flipped": func(t *testing.T, fsys vfs.FS, name string) { flip(t, fsys, name, random) },
			"truncated": func(t *testing.T, fsys vfs.FS, name string) {
				resize(t, fsys, name, func(size int64) int64 { return size - 1 })
			},
			"extended": func(t *testing.T, fsys vfs.FS, name string) {
				resize(t, fsys, name, func(size int64) int64 { return size + 1 })
			},
		} {
			t.Run(kind[1:]+" "+how, func(t *testing.T) {
				mem := vfs.NewMem()
				f := open(t, mem)
				fill(t, f)
				if kind == ".txnindex" {
					addAborted(t, f)
				}
				name := sealedFile(t, f, kind)
				original := read(t, mem, name)
				damage(t, mem, name)
				s, stop := start(t, f, nil)
				awaitPlace(t, s, name, repairs)
				if got := read(t, mem, name); !bytes.Equal(got, original) {
					t.Errorf("%d bytes %x, want %d bytes %x", len(got), got, len(original), original)
				}
				if damaged := s.State().Damaged; len(damaged) > 0 || s.repaired.Load() != 1 {
					t.Errorf("%d files repaired, damage %v", s.repaired.Load(), damaged)
				}
				readAll(t, f)
				stop()
				if err := f.store.Close(); err != nil {
					t.Errorf("close after a repair: %v", err)
				}
				readAll(t, reopen(t, mem))
			})
		}
	}
}

// addAborted appends aborted transactions to the log of the topic events, and waits until their
// segments are at rest. One of the transactions began in an earlier segment.
func addAborted(t *testing.T, f *fixture) {
	t.Helper()
	log := f.store.Log(events)
	transaction := func(producer int64, sequence int32) {
		b := storetest.Batch{Producer: producer, Sequence: sequence, Keys: []string{"a"},
			Value: "value", Transactional: true}.Bytes(t)
		if _, err := log.AppendVerified(b, logstore.Verified{Transaction: true},
			time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	transaction(100, 0)
	before := log.LogEnd()
	for i := range int32(40) {
		transaction(8, i)
		_, err := log.AppendControl(logstore.EndTxn{ProducerID: 8, Commit: i%3 == 0}, time.Now())
		if i == 20 && err == nil {
			_, err = log.AppendControl(logstore.EndTxn{ProducerID: 100}, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(log.LogEnd())
	await.Until(t, "segments with transactions at rest", func() bool {
		resting := log.AtRest()
		return resting[len(resting)-1].Base > before+60
	})
}

func read(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	content, err := fsys.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func resize(t *testing.T, fsys vfs.FS, name string, size func(int64) int64) {
	t.Helper()
	file, err := fsys.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	before, err := file.Size()
	if err == nil {
		err = errors.Join(file.Truncate(size(before)), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readAll appends to every log except events, and then reads every log at each offset.
func readAll(t *testing.T, f *fixture) {
	t.Helper()
	for _, log := range f.store.Logs() {
		if log.ID() == events {
			continue // its last batch belongs to a producer
		}
		add(t, log, storetest.Keyed(t, "after"))
	}
	for _, log := range f.store.Logs() {
		for offset := log.LogStart(); offset < log.HighWatermark(); offset++ {
			slice, err := log.ReadCommitted(offset, log.HighWatermark(), 1<<20, true)
			if err != nil {
				t.Fatalf("read %s at %d: %v", log.ID(), offset, err)
			}
			slice.Release()
		}
	}
}

// reopen opens the store again, with the settings that fill uses.
func reopen(t *testing.T, fsys vfs.FS) *fixture {
	t.Helper()
	f := open(t, fsys)
	f.create(t, tickets, storetest.Compacted(nil))
	f.create(t, events, storetest.Settings(nil))
	for _, log := range f.store.Logs() {
		log.AdvanceHighWatermark(log.LogEnd())
	}
	return f
}

// TestDeadFileIsRemovedAndCleaned checks that a damaged .dead file is removed, and that a pass is
// requested, which writes another one.
func TestDeadFileIsRemovedAndCleaned(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	addDead(t, f)
	name := sealedFile(t, f, segment.DeadExtension)
	flip(t, mem, name, rand.New(rand.NewPCG(seed.New(t), 0)))
	var cleaned atomic.Int64
	s, _ := startWith(t, f, func(o *Options) { o.Clean = func(*logstore.Log) { cleaned.Add(1) } })
	awaitPlace(t, s, name, repairs)
	await.Until(t, "a request of a pass", func() bool { return cleaned.Load() == 1 })
	if _, err := mem.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the damaged file still exists: %v", err)
	}
}

// TestRepairWaitsForAPass checks that nothing is repaired while a pass runs, and that the damage is
// reported meanwhile.
func TestRepairWaitsForAPass(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	name := sealedFile(t, f, ".index")
	original := read(t, mem, name)
	flip(t, mem, name, rand.New(rand.NewPCG(seed.New(t), 0)))
	var running atomic.Bool
	running.Store(true)
	s, _ := startWith(t, f, func(o *Options) {
		o.Cleaning = func(*logstore.Log) bool { return running.Load() }
	})
	awaitRounds(t, s, 2)
	if len(s.State().Damaged) != 1 || bytes.Equal(read(t, mem, name), original) {
		t.Errorf("state %+v during a pass", s.State())
	}
	running.Store(false)
	awaitPlace(t, s, name, repairs)
}

// TestSegmentIsNotReadWhileItsRepairWaits checks that a segment is not read while its repair waits
// for a pass, because a pass may take hours, and each check reads the whole segment.
func TestSegmentIsNotReadWhileItsRepairWaits(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	name := sealedFile(t, f, ".index")
	flip(t, mem, name, rand.New(rand.NewPCG(seed.New(t), 0)))
	s, stop := startWith(t, f, func(o *Options) {
		o.Cleaning = func(*logstore.Log) bool { return true }
	})
	await.Until(t, "damage", func() bool { return len(s.State().Damaged) > 0 })
	stop()
	target := s.State().Damaged[0].Target
	s.recheck = rechecks{target: {}}
	before := s.checked.Load()
	if wait := s.visitAgain(t.Context(), target); wait > 0 || s.checked.Load() != before {
		t.Errorf("%d bytes were read during a pass, wait %v", s.checked.Load()-before, wait)
	}
	if len(s.recheck) != 1 || !s.recheck[target].due.After(time.Now()) {
		t.Errorf("the check is not repeated later: %v", s.recheck)
	}
}

// TestSeveralFilesOfASegmentAreRepaired damages both indexes of a segment and checks that both are
// repaired.
func TestSeveralFilesOfASegmentAreRepaired(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	name := sealedFile(t, f, ".index")
	other := name[:len(name)-len(".index")] + ".timeindex"
	originals := [][]byte{read(t, mem, name), read(t, mem, other)}
	flip(t, mem, name, random)
	flip(t, mem, other, random)
	s, _ := start(t, f, nil)
	awaitPlace(t, s, name, repairs)
	for i, file := range []string{name, other} {
		if got := read(t, mem, file); !bytes.Equal(got, originals[i]) {
			t.Errorf("%s: %x, want %x", file, got, originals[i])
		}
	}
}

// TestDamagedRecordsAreNotUsedForARepair checks that an index is not replaced if the records of its
// segment are damaged.
func TestDamagedRecordsAreNotUsedForARepair(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	name := sealedFile(t, f, ".index")
	flip(t, mem, name, random)
	flip(t, mem, name[:len(name)-len(".index")]+".log", random)
	damaged := read(t, mem, name)
	s, _ := start(t, f, nil)
	awaitRounds(t, s, 2)
	if len(s.State().Repaired) > 0 || !bytes.Equal(read(t, mem, name), damaged) {
		t.Errorf("repaired %+v", s.State().Repaired)
	}
}

// TestRepairOfAReplacedSegmentChangesNothing truncates the segment, or closes the log, between the
// check and the repair.
func TestRepairOfAReplacedSegmentChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	log := f.store.Log(events)
	resting := log.AtRest()
	last := resting[len(resting)-1]
	if err := log.TruncateTo(last.Base); err != nil {
		t.Fatal(err)
	}
	for _, extension := range []string{".index", ".timeindex", ".txnindex", ".keys", ".dead"} {
		if err := last.Repair(t.Context(), extension, nil); err == nil {
			t.Errorf("%s of a removed segment was repaired", extension)
		}
		name := filepath.Join(log.Dir(), segment.Name(last.Base, extension, ""))
		if info, err := mem.Stat(name); err == nil && info.Size() > 0 {
			t.Errorf("%s exists", name)
		}
	}
	if err := resting[0].Repair(t.Context(), ".snapshot", nil); err == nil {
		t.Error("a snapshot was derived from a segment")
	}
}

// TestRepairSurvivesACrash simulates a power cut after a repair. The repair is durable.
func TestRepairSurvivesACrash(t *testing.T) {
	for _, kind := range []string{".index", ".txnindex", ".dead"} {
		mem := vfs.NewMem()
		f := open(t, mem)
		fill(t, f)
		addAborted(t, f)
		addDead(t, f)
		name := sealedFile(t, f, kind)
		flip(t, mem, name, rand.New(rand.NewPCG(seed.New(t), 0)))
		s, stop := start(t, f, nil)
		awaitPlace(t, s, name, repairs)
		stop()
		crashed := mem.CrashClone()
		again := open(t, crashed)
		places, err := inspect.CheckPartition(crashed, filepath.Dir(name))
		if err != nil || len(places) > 0 {
			t.Errorf("%s: %v, %v", kind, places, err)
		}
		s, _ = start(t, again, nil)
		awaitRounds(t, s, 1)
		if damaged := s.State().Damaged; len(damaged) > 0 {
			t.Errorf("%s: damage after a crash: %v", kind, damaged)
		}
	}
}

func TestMendedKeepsTheLastRepairs(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000).UTC()
	var state State
	for i := range int64(repairedMax + 3) {
		target := Target{Topic: "a", Partition: 0, Base: i}
		state = state.Checked(target, []inspect.Damage{{File: "x.index"}}, now).Mended(target, []string{"x.index"}, nil, now)
	}
	state = restarted(t, state.Mended(Target{Topic: "never damaged", Partition: 0, Base: 0}, nil, nil, now))
	if len(state.Repaired) != repairedMax || state.Repaired[0].Base != 3 || len(state.Damaged) > 0 {
		t.Errorf("%+v", state)
	}
}
