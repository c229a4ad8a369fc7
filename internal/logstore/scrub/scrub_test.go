package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

const dataDir = "/data"

var (
	tickets = logstore.PartitionID{Topic: "tickets"}
	events  = logstore.PartitionID{Topic: "events", Index: 3}
	quiet   = slog.New(slog.DiscardHandler)
)

var errNoReplica = errors.New("there is no other replica")

func idle(*logstore.Log) bool { return false }

// fixture is a store with two logs: a compacted log, which was cleaned and contains aborted
// transactions, and a log with retention.
type fixture struct {
	fs    vfs.FS
	store *logstore.Store
}

func open(t *testing.T, fsys vfs.FS) *fixture {
	t.Helper()
	store, err := logstore.Open(logstore.Options{FS: fsys, Dir: dataDir, Logger: quiet,
		FlushInterval: time.Millisecond, RetentionInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &fixture{fsys, store}
}

func (f *fixture) create(t *testing.T, id logstore.PartitionID,
	config topicconfig.Settings) *logstore.Log {
	t.Helper()
	log, err := f.store.Create(id, logstore.TopicID{byte(id.Index + 1)}, config, true)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func add(t *testing.T, log *logstore.Log, batch []byte) {
	t.Helper()
	if _, err := log.Append(batch, time.Now()); err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// fill creates both logs. It waits until their segments are at rest and the compacted log is
// cleaned.
func fill(t *testing.T, f *fixture) {
	t.Helper()
	compacted := f.create(t, tickets, storetest.Compacted(nil))
	deleted := f.create(t, events, storetest.Settings(func(s *topicconfig.Settings) {
		s.IndexIntervalBytes = 200
	}))
	c := cleaner.New(f.store, cleaner.Options{Logger: quiet, Interval: time.Millisecond})
	defer c.Close()
	if err := deleted.Lead(1); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		add(t, compacted, storetest.Keyed(t, fmt.Sprintf("k%d", i%40)))
		add(t, deleted, storetest.Batch{Producer: 7, Sequence: int32(i), Keys: []string{"a"},
			Value: "value", Timestamp: storetest.Start.Add(time.Duration(i))}.Bytes(t))
	}
	if _, err := c.CleanNow(tickets); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "segments at rest and a cleaned log", func() bool {
		status := c.Status(tickets)
		return status != nil && status.CleanNowServed > 0 && len(compacted.AtRest()) > 1 &&
			len(deleted.AtRest()) > 3
	})
}

// start runs a scrub with a high rate until the test ends or stop is called.
func start(t *testing.T, f *fixture, damaged func(*logstore.Log, int64)) (s *Scrubber,
	stop func()) {
	t.Helper()
	return startWith(t, f, func(o *Options) {
		o.Replace = func(_ context.Context, log *logstore.Log, sealed logstore.AtRest,
			_ []inspect.Damage, _ repair.Pace) error {
			if damaged != nil {
				damaged(log, sealed.Base)
			}
			return errNoReplica
		}
	})
}

// startWith is like start, with changed options.
func startWith(t *testing.T, f *fixture, change func(*Options)) (s *Scrubber, stop func()) {
	t.Helper()
	options := Options{FS: f.fs, Dir: dataDir, Logger: quiet,
		Busy: func() bool { return false }, Cleaning: idle, Clean: func(*logstore.Log) {},
		Replace: func(context.Context, *logstore.Log, logstore.AtRest, []inspect.Damage,
			repair.Pace) error {
			return errNoReplica
		}}
	change(&options)
	s = New(f.store, options)
	s.settled = 0
	s.Configure(Settings{Interval: time.Millisecond, BytesRate: 1 << 40})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { s.Run(ctx) })
	stop = func() { cancel(); run.Wait() }
	t.Cleanup(stop)
	return s, stop
}

// awaitRounds waits until the end of n more rounds that begin after the call.
func awaitRounds(t *testing.T, s *Scrubber, n int) {
	t.Helper()
	for range n {
		after := time.Now()
		await.Until(t, "a round of the scrub",
			func() bool { return s.State().CheckedSince.After(after) })
	}
}

func TestHealthyFilesHaveNoDamage(t *testing.T) {
	f := open(t, vfs.NewMem())
	fill(t, f)
	s, _ := start(t, f, func(log *logstore.Log, base int64) {
		t.Errorf("segment %d of %s reported as damaged", base, log.ID())
	})
	awaitRounds(t, s, 3)
	if d := s.State().Damaged; len(d) > 0 || s.checked.Load() == 0 {
		t.Errorf("damaged: %v; %d bytes checked", d, s.checked.Load())
	}
}

// TestEveryKindOfFileIsChecked damages one file of each kind that the store has written, and checks
// that the file is reported as damaged or as repaired. Only the repair of records needs another
// replica.
func TestEveryKindOfFileIsChecked(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	for _, kind := range []string{".log", ".snapshot", "key-salt", "leader-epoch-checkpoint",
		"recovery-point-offset-checkpoint"} {
		t.Run(kind, func(t *testing.T) {
			mem := vfs.NewMem()
			f := open(t, mem)
			fill(t, f)
			name := sealedFile(t, f, kind)
			var mu sync.Mutex
			stopped := 0
			flip(t, mem, name, random)
			s, _ := start(t, f, func(log *logstore.Log, _ int64) {
				mu.Lock()
				defer mu.Unlock()
				stopped++
			})
			places, ofData := repairs, kind == ".log"
			if ofData {
				places = damaged
			}
			awaitPlace(t, s, name, places)
			mu.Lock()
			defer mu.Unlock()
			if ofData != (stopped > 0) {
				t.Errorf("reported %d damaged segments", stopped)
			}
		})
	}
}

// damaged returns the damage in a state.
func damaged(state State) []Damaged { return state.Damaged }

// awaitPlace waits until the scrub's state lists a file as damaged.
func awaitPlace(t *testing.T, s *Scrubber, name string, places func(State) []Damaged) {
	t.Helper()
	await.Until(t, "a place in "+name, func() bool {
		for _, d := range places(s.State()) {
			for _, place := range d.Places {
				if place.File == name {
					return true
				}
			}
		}
		return false
	})
}

// addDead writes a .dead file, as a pass does.
func addDead(t *testing.T, f *fixture) {
	t.Helper()
	resting := f.store.Log(tickets).AtRest()[0]
	dead := clean.DeadFile{Binding: clean.Binding{Base: resting.Base, LogBytes: resting.SizeBytes}}
	name := filepath.Join(dataDir, tickets.String(),
		segment.Name(resting.Base, segment.DeadExtension, ""))
	if err := vfs.WriteFileAtomic(f.fs, name, dead.Encode()); err != nil {
		t.Fatal(err)
	}
}

// sealedFile returns the first file of a kind that is at rest.
func sealedFile(t *testing.T, f *fixture, kind string) string {
	t.Helper()
	for _, dir := range []string{dataDir + "/" + tickets.String(), dataDir + "/" + events.String(),
		dataDir} {
		entries, err := f.fs.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			info, err := f.fs.Stat(path)
			if strings.HasSuffix(path, kind) && err == nil && info.Size() > 0 {
				return path
			}
		}
	}
	t.Fatalf("no file %s", kind)
	return ""
}

// flip changes a byte of a file: in a text file the version, in any other file a byte that a
// checksum covers.
func flip(t *testing.T, fsys vfs.FS, name string, random *rand.Rand) {
	t.Helper()
	file, err := fsys.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	position := int64(0)
	switch filepath.Ext(name) {
	case ".log":
		position = 21 + random.Int64N(40)
	case ".keys", ".dead":
		size, _ := file.Size()
		position = random.Int64N(size)
	}
	content := make([]byte, 1)
	if _, err := file.ReadAt(content, position); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	content[0] ^= 1 << random.IntN(7)
	if _, err := file.WriteAt(content, position); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReadErrorAndMissingFileAreDamage(t *testing.T) {
	for name, breakFile := range map[string]func(f *vfs.Fault, path string){
		"read error": func(f *vfs.Fault, path string) {
			f.Inject(vfs.Rule{Op: vfs.OpRead, Name: "*" + filepath.Base(path)})
		},
		"missing": func(f *vfs.Fault, path string) {
			if err := f.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			fault := vfs.NewFault(vfs.NewMem())
			f := open(t, fault)
			fill(t, f)
			path := sealedFile(t, f, ".log")
			breakFile(fault, path)
			s, _ := start(t, f, nil)
			await.Until(t, "damage", func() bool {
				damaged := s.State().Damaged
				return len(damaged) > 0 && strings.HasSuffix(damaged[0].Places[0].File,
					filepath.Base(path))
			})
		})
	}
}

// TestRestartContinuesARoundAndRechecksDamage checks that a second process first rechecks the
// damaged targets, and then continues the round.
func TestRestartContinuesARoundAndRechecksDamage(t *testing.T) {
	mem := vfs.NewMem()
	f := open(t, mem)
	fill(t, f)
	flip(t, mem, sealedFile(t, f, ".log"), rand.New(rand.NewPCG(1, 1)))
	s, stop := start(t, f, nil)
	await.Until(t, "damage", func() bool { return len(s.State().Damaged) > 0 })
	stop()
	before := s.State()

	reported := make(chan int64, 100)
	s = New(f.store, Options{FS: mem, Dir: dataDir, Logger: quiet,
		Busy: func() bool { return false }, Cleaning: idle, Clean: func(*logstore.Log) {},
		Replace: func(_ context.Context, _ *logstore.Log, sealed logstore.AtRest,
			_ []inspect.Damage, _ repair.Pace) error {
			reported <- sealed.Base
			return errNoReplica
		}})
	if got := s.State(); !got.Began.Equal(before.Began) || len(got.Damaged) != 1 {
		t.Fatalf("state after a restart: %+v, want %+v", got, before)
	}
	// The interval has not passed, so only the recheck reports the damage.
	s.Configure(Settings{Interval: time.Hour, BytesRate: 1 << 40})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { s.Run(ctx) })
	defer run.Wait()
	defer cancel()
	if base := <-reported; base != before.Damaged[0].Base {
		t.Errorf("segment %d reported, want %d", base, before.Damaged[0].Base)
	}
}

func TestTurningTheScrubOnBeginsARound(t *testing.T) {
	f := open(t, vfs.NewMem())
	fill(t, f)
	s, _ := start(t, f, nil)
	awaitRounds(t, s, 1)
	s.Configure(Settings{Interval: time.Hour, BytesRate: 1 << 40})
	await.Until(t, "the end of the round", func() bool { return s.State().Complete })
	before := s.State().CheckedSince
	s.Configure(Settings{})
	s.Configure(Settings{Interval: time.Hour, BytesRate: 1 << 40})
	await.Until(t, "another round",
		func() bool { return s.State().CheckedSince.After(before) })
}

// repairAny repairs a derived file that is not damaged.
func repairAny(t *testing.T, random *rand.Rand, logs []*logstore.Log) {
	t.Helper()
	resting := logs[random.IntN(len(logs))].AtRest()
	if len(resting) == 0 {
		return
	}
	extension := []string{".index", ".timeindex", ".txnindex"}[random.IntN(3)]
	err := resting[random.IntN(len(resting))].Repair(t.Context(), extension, nil)
	if err != nil && !errors.Is(err, segmentlist.ErrChanged) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("repair %s: %v", extension, err)
	}
}

// TestBusyLogsHaveNoDamage scrubs without a pause while logs are appended to, rolled, cleaned,
// truncated, expired and repaired. No damage may be reported.
func TestBusyLogsHaveNoDamage(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	f := open(t, vfs.NewMem())
	compacted := f.create(t, tickets, storetest.Compacted(nil))
	deleted := f.create(t, events, storetest.Settings(func(s *topicconfig.Settings) {
		s.Delete, s.RetentionBytes, s.IndexIntervalBytes = true, 5000, 100
	}))
	c := cleaner.New(f.store, cleaner.Options{Logger: quiet, Interval: time.Millisecond})
	t.Cleanup(c.Close)
	s, stop := start(t, f, nil)
	for i := range 3000 {
		add(t, compacted, storetest.Keyed(t, fmt.Sprintf("k%d", random.IntN(30))))
		add(t, deleted, storetest.Keyed(t, "a", "b"))
		switch random.IntN(200) {
		case 0:
			end := max(deleted.LogEnd()-random.Int64N(30), deleted.LogStart()+1)
			if err := deleted.TruncateTo(end); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := deleted.DeleteBefore(deleted.LogEnd() - 20); err != nil {
				t.Logf("delete before: %v", err)
			}
		case 2:
			_, _ = c.CleanNow(tickets)
		case 3:
			repairAny(t, random, f.store.Logs())
		}
		if i%1000 == 999 {
			awaitRounds(t, s, 1)
		}
	}
	stop()
	if state := s.State(); len(state.Damaged) > 0 || s.found > 0 {
		t.Errorf("damaged: %+v", state.Damaged)
	}
	if log := f.store.Log(tickets); log.Fault() != nil {
		t.Errorf("log stopped: %v", log.Fault())
	}
}
