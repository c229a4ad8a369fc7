package scrub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// logSource is a replica on the same machine.
type logSource struct{ *logstore.Log }

func (s logSource) Read(_ context.Context, offset int64) ([]byte, error) {
	slice, err := s.Log.Read(offset, s.HighWatermark(), 700, true)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", repair.ErrSource, err)
	}
	defer slice.Release()
	batches := make([]byte, slice.Length)
	if slice.Length > 0 {
		_, err = slice.File.ReadAt(batches, slice.Position)
	}
	return batches, err
}

// replicas are two logs of the same partition, which are cleaned independently.
type replicas struct {
	disks    [2]*vfs.Mem
	stores   [2]*logstore.Store
	logs     [2]*logstore.Log
	cleaners [2]*cleaner.Cleaner
}

func openReplicas(t *testing.T, settings topicconfig.Settings) *replicas {
	t.Helper()
	r := &replicas{}
	for i := range r.logs {
		r.disks[i] = vfs.NewMem()
		f := open(t, r.disks[i])
		r.stores[i], r.logs[i] = f.store, f.create(t, tickets, settings)
		r.cleaners[i] = cleaner.New(f.store, cleaner.Options{Logger: quiet,
			Interval: time.Millisecond})
	}
	if err := r.logs[0].Lead(1); err != nil {
		t.Fatal(err)
	}
	return r
}

// replicate copies the records that the second log lacks.
func (r *replicas) replicate(t *testing.T) {
	t.Helper()
	leader, follower := r.logs[0], r.logs[1]
	leader.AdvanceHighWatermark(leader.LogEnd())
	for follower.LogEnd() < leader.LogEnd() {
		got, err := logSource{leader}.Read(t.Context(), follower.LogEnd())
		if err == nil {
			err = follower.AppendReplicated(got, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	follower.AdvanceHighWatermark(follower.LogEnd())
}

// clean runs a pass on one log, after both have received the replicated cleaning progress.
func (r *replicas) clean(t *testing.T, i int) {
	t.Helper()
	first, second := &r.logs[0].Compaction().Progress, &r.logs[1].Compaction().Progress
	progress := min(first.TombstoneClean(), second.TombstoneClean())
	first.SetReplicasTombstoneClean(progress)
	second.SetReplicasTombstoneClean(progress)
	ticket, err := r.cleaners[i].CleanNow(tickets)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a pass", func() bool {
		status := r.cleaners[i].Status(tickets)
		return status != nil && status.CleanNowServed >= ticket
	})
}

// content returns the records of a log by offset, as a read_committed consumer reads them.
func content(t *testing.T, log *logstore.Log) map[int64]string {
	t.Helper()
	all := map[int64]string{}
	for offset := log.LogStart(); offset < log.LastStable(); {
		slice, err := log.ReadCommitted(offset, log.HighWatermark(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		batches := storetest.Batches(t, slice.File, slice.Position, slice.Length)
		aborted := slice.Aborted
		slice.Release()
		if len(batches) == 0 {
			break
		}
		for _, b := range batches {
			offset = b.NextOffset()
			if b.Control() || b.Transactional() && slices.ContainsFunc(aborted,
				func(a segment.AbortedTxn) bool {
					return a.ProducerID == b.ProducerID() && a.FirstOffset <= b.BaseOffset() &&
						b.LastOffset() <= a.LastOffset
				}) {
				continue
			}
			if err := b.Records(1<<20, func(rec *record.Record) error {
				all[rec.Offset] = fmt.Sprintf("%s=%q %v", rec.Key, rec.Value, rec.Value == nil)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return all
}

// lastBatches returns the last offset of the last batch of each producer, as a replica that copies
// the log receives it.
func lastBatches(t *testing.T, log *logstore.Log) map[int64]int64 {
	t.Helper()
	last := map[int64]int64{}
	for offset := log.LogStart(); offset < log.LogEnd(); {
		slice, err := log.ReadReplica(offset, 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		batches := storetest.Batches(t, slice.File, slice.Position, slice.Length)
		slice.Release()
		if len(batches) == 0 {
			break
		}
		for _, b := range batches {
			offset = b.NextOffset()
			if b.ProducerID() >= 0 && !b.Control() {
				last[b.ProducerID()] = b.LastOffset()
			}
		}
	}
	return last
}

// history appends random records, tombstones and transactions to both logs. It cleans each log
// meanwhile, at different times, and stops the cleaners.
func (r *replicas) history(t *testing.T, random *rand.Rand, compacted bool) {
	t.Helper()
	sequence := int32(0)
	for i := range 40 + random.IntN(120) {
		keys := []string{fmt.Sprintf("k%d", random.IntN(12)), fmt.Sprintf("k%d", random.IntN(12))}
		b := storetest.Batch{Keys: keys, Value: strings.Repeat(fmt.Sprintf("value %d ", i),
			random.IntN(40)), Timestamp: time.Now()}
		switch kind := random.IntN(10); {
		case kind == 0:
			add(t, r.logs[0], b.Tombstones(t))
		case kind == 1 && i%3 > 0: // a producer that writes rarely
			b.Producer = 100 + int64(i)
			add(t, r.logs[0], b.Bytes(t))
		case kind < 4:
			b.Producer, b.Sequence, b.Transactional = 8, sequence, true
			sequence += int32(len(keys))
			_, err := r.logs[0].AppendVerified(b.Bytes(t), logstore.Verified{Transaction: true},
				time.Now())
			if err == nil {
				_, err = r.logs[0].AppendControl(logstore.EndTxn{ProducerID: 8,
					Commit: kind < 3}, time.Now())
			}
			if err != nil {
				t.Fatal(err)
			}
		default:
			add(t, r.logs[0], b.Bytes(t))
		}
		if compacted && random.IntN(25) == 0 {
			r.replicate(t)
			r.clean(t, random.IntN(2))
		}
	}
	r.replicate(t)
	for _, c := range r.cleaners {
		c.Close()
	}
}

// damage flips a bit of a data file, cuts its end off, or overwrites a range of it.
func damage(t *testing.T, random *rand.Rand, disk vfs.FS, name string, size int64) {
	t.Helper()
	file, err := disk.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	from := random.Int64N(size)
	content := make([]byte, 1)
	switch random.IntN(3) {
	case 0:
		_, err = file.ReadAt(content, from)
		content[0] ^= 1 << random.IntN(8)
	case 1:
		content = make([]byte, 1+random.Int64N(size-from))
	default:
		err = file.Truncate(from)
		content = nil
	}
	if err == nil && content != nil {
		_, err = file.WriteAt(content, from)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedRecordsAreReplaced damages a segment of one of two replicas that were cleaned
// independently, and replaces its records by those of the other replica: no removed record returns,
// and no record of the other replica is missing.
func TestDamagedRecordsAreReplaced(t *testing.T) {
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	results := map[string]int{}
	for run := range 40 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			results[replaceRandom(t, random, run%4 > 0)]++
		})
	}
	t.Logf("results: %v", results)
	if results[wasReplaced] < 5 {
		t.Errorf("only %d segments were replaced", results[wasReplaced])
	}
}

const (
	wasReplaced = "replaced"
	wasUnknown  = "unknown content"
)

// replaceRandom damages and repairs a random segment of two random logs.
func replaceRandom(t *testing.T, random *rand.Rand, compacted bool) (result string) {
	settings := storetest.Settings(nil)
	if compacted {
		settings = storetest.Compacted(func(s *topicconfig.Settings) { s.TombstoneRetention = 0 })
	}
	settings.SegmentBytes = 3000
	r := openReplicas(t, settings)
	r.history(t, random, compacted)
	own := random.IntN(2)
	log, source := r.logs[own], logSource{r.logs[1-own]}
	var resting []logstore.AtRest
	await.Until(t, "a segment at rest", func() bool {
		resting = slices.DeleteFunc(log.AtRest(),
			func(s logstore.AtRest) bool { return s.SizeBytes == 0 })
		return len(resting) > 0
	})
	sealed := resting[random.IntN(len(resting))]
	before, wanted := content(t, log), content(t, source.Log)
	producers := lastBatches(t, log)
	damage(t, random, r.disks[own], filepath.Join(log.Dir(),
		segment.Name(sealed.Base, segment.LogExtension, "")), sealed.SizeBytes)
	err := sealed.ReplaceRecords(t.Context(), source, nil)
	if errors.Is(err, repair.ErrUnknownContent) {
		return wasUnknown
	}
	if err != nil {
		t.Fatal(err)
	}
	places, err := inspect.CheckSegment(r.disks[own], log.Dir(), sealed.Base)
	if err != nil || len(places) > 0 {
		t.Errorf("damage after the repair: %v, %v", places, err)
	}
	after := content(t, log)
	checkReplaced(t, before, after, wanted)
	if got := lastBatches(t, log); !maps.Equal(got, producers) {
		t.Errorf("the last batches of producers are %v, want %v", got, producers)
	}
	crashed := open(t, r.disks[own].CrashClone()).create(t, tickets, settings)
	crashed.AdvanceHighWatermark(crashed.LogEnd())
	maps.DeleteFunc(after,
		func(offset int64, _ string) bool { return offset >= crashed.LastStable() })
	if got := content(t, crashed); !maps.Equal(got, after) {
		t.Errorf("after a crash the log has other records: %v, want %v", got, after)
	}
	return wasReplaced
}

// checkReplaced compares the records of a log before and after a repair with those of the source.
func checkReplaced(t *testing.T, before, after, source map[int64]string) {
	t.Helper()
	for offset, rec := range after {
		if before[offset] != rec {
			t.Errorf("offset %d is %s, want %q", offset, rec, before[offset])
		}
	}
	for offset, rec := range before {
		if after[offset] == "" && source[offset] != "" {
			t.Errorf("offset %d (%s) was removed, and the source has it", offset, rec)
		}
	}
}

// passSource runs a pass on the damaged log while its records are read from another replica.
type passSource struct {
	logSource
	damaged *logstore.Log
	err     error // result of the pass
}

func (s *passSource) Read(ctx context.Context, offset int64) ([]byte, error) {
	c := s.damaged.Compaction()
	_, s.err = c.Pass(ctx, compaction.PassOptions{Settings: c.Settings(), MemoryBytes: 1 << 20})
	return s.logSource.Read(ctx, offset)
}

// filled returns two equal logs, and a segment at rest of the first one whose first batch is
// damaged.
func filled(t *testing.T) (*replicas, logstore.AtRest) {
	t.Helper()
	r := openReplicas(t, storetest.Settings(nil))
	for i := range 30 {
		add(t, r.logs[0], storetest.Keyed(t, fmt.Sprintf("k%d", i), fmt.Sprintf("l%d", i)))
	}
	r.replicate(t)
	for _, c := range r.cleaners {
		c.Close()
	}
	await.Until(t, "a segment at rest", func() bool { return len(r.logs[0].AtRest()) > 0 })
	sealed := r.logs[0].AtRest()[0]
	flip(t, r.disks[0], filepath.Join(r.logs[0].Dir(),
		segment.Name(sealed.Base, segment.LogExtension, "")), rand.New(rand.NewPCG(1, 1)))
	return r, sealed
}

// TestPassDoesNotRunDuringARepair checks that a pass fails while a repair writes a segment, since
// both write files with the suffix .cleaned.
func TestPassDoesNotRunDuringARepair(t *testing.T) {
	r, sealed := filled(t)
	before := content(t, r.logs[1])
	source := &passSource{logSource: logSource{r.logs[1]}, damaged: r.logs[0]}
	if err := sealed.ReplaceRecords(t.Context(), source, nil); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(source.err, segmentlist.ErrChanged) {
		t.Errorf("pass during the repair: %v", source.err)
	}
	if got := content(t, r.logs[0]); !maps.Equal(got, before) {
		t.Errorf("the log has %d records, want %d", len(got), len(before))
	}
}

// TestRepairStartsWithinADeletedBatch checks a repair of a batch whose first record was deleted by
// DeleteRecords on both replicas.
func TestRepairStartsWithinADeletedBatch(t *testing.T) {
	r, sealed := filled(t)
	for _, log := range r.logs {
		if err := log.DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
	}
	if err := sealed.ReplaceRecords(t.Context(), logSource{r.logs[1]}, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, r.logs[0]), content(t, r.logs[1]); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCheckWithoutDamageClearsTheMark checks that a segment which a read has taken for damaged by
// mistake can be cleaned again.
func TestCheckWithoutDamageClearsTheMark(t *testing.T) {
	f := open(t, vfs.NewMem())
	fill(t, f)
	sealed := f.store.Log(tickets).AtRest()[0]
	sealed.MarkDamaged()
	s, _ := start(t, f, nil)
	s.Recheck(tickets, sealed.Base)
	await.Until(t, "the mark is cleared", func() bool { return !sealed.Damaged() })
}
